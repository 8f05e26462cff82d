"""Which cells of rows are known, from what a caller gives as ``observed``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.table.format import TableFormat
from tauleap.data.table.frame import is_frame


def known_cells(data: Dataset, observed: Any, form: Format | None) -> Tensor:
    """Return a bool mask (n, *shape), true for cells that are observed and not missing.

    Args:
        data: The rows.
        observed: A bool mask like the rows or like one row, a frame of bools, or names of columns; None for all cells.
        form: What the states mean; names of columns need a table's.

    Raises:
        ValueError: It is not a mask of the rows, or names a column that the table does not have.
    """
    present = data.known()
    if observed is None:
        return present
    if is_frame(observed):
        observed = _frame_mask(observed, form)
    elif isinstance(form, TableFormat) and isinstance(observed, list | tuple | set):
        observed = _named(observed, form)
    try:
        mask = torch.as_tensor(observed)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"observed must be a bool mask of shape {tuple(data.x.shape)} or {data.shape}, true where the value is "
            f"known, got {type(observed).__name__}: {error}"
        ) from error
    if mask.dtype != torch.bool or mask.shape not in (data.x.shape, data.x.shape[1:]):
        raise ValueError(
            f"observed must be a bool mask of shape {tuple(data.x.shape)} or {data.shape}, true where the value "
            f"is known, got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    return mask.cpu().expand(data.x.shape) & present


def _named(observed: Any, form: TableFormat) -> Any:
    """Names of columns as a mask of a row; what is no list of names as it is."""
    if not observed or not all(isinstance(name, str) for name in observed):
        return observed
    strangers = [name for name in observed if name not in form.site_names]
    if strangers:
        raise ValueError(f"observed names {strangers[0]!r}; the columns are {', '.join(form.site_names)}")
    return torch.tensor([name in observed for name in form.site_names])


def _frame_mask(observed: Any, form: Format | None) -> Any:
    """Return a frame of bools as an array of the model's columns, which are found by name if the frame has them all."""
    if isinstance(form, TableFormat):
        places = {str(name): place for place, name in enumerate(observed.columns)}
        if all(name in places for name in form.site_names):
            observed = observed.iloc[:, [places[name] for name in form.site_names]]
    return observed.to_numpy()
