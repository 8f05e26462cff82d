"""Find the observed cells of rows from the argument ``observed``: a mask, a frame of bools, or names of columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from tauleap._files.printable import one_line
from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.table.format import TableFormat
from tauleap.data.table.frame import is_frame


def known_cells(data: Dataset, observed: Any, form: Format | None) -> Tensor:
    """Return a mask of the cells that are observed and not missing, bool (n, *shape).

    Args:
        data: The rows.
        observed: A bool mask like the rows or like one row, a frame of bools, or names of columns; None for all cells.
        form: The format of the rows, None for plain states. Names of columns need that of a table.

    Returns:
        The mask.

    Raises:
        ValueError: ``observed`` is not a mask of the rows, or names a column that the table does not have.

    >>> known_cells(Dataset(torch.tensor([[0, 1], [1, 1]]), 2), torch.tensor([True, False]), None).tolist()
    [[True, False], [True, False]]
    """
    present = data.known()
    if observed is None:
        return present
    if isinstance(observed, str):
        names = isinstance(form, TableFormat)
        instead = f"write observed=[{observed!r}]" if names else "names of columns are for models of tables"
        raise ValueError(
            f"observed must be a {'list of names or a ' * names}bool mask of shape {data.shape}, got {observed!r}: "
            f"{instead}"
        )
    if is_frame(observed):
        observed = _frame_mask(observed, form)
    elif isinstance(form, TableFormat):
        names = observed.tolist() if hasattr(observed, "tolist") else observed  # an array, or the columns of a frame
        if isinstance(names, list | tuple | set | frozenset) and all(isinstance(name, str) for name in names):
            observed = _column_mask(names, form)
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


def _column_mask(observed: Collection[str], form: TableFormat) -> Tensor:
    """Return names of columns as a mask of one row."""
    unknown = [name for name in observed if name not in form.site_names]
    if unknown:
        columns = one_line(", ".join(form.site_names), most=500)
        raise ValueError(f"observed names {', '.join(map(repr, unknown))}: write some of the columns {columns}")
    return torch.tensor([name in observed for name in form.site_names])


def _frame_mask(observed: Any, form: Format | None) -> Any:
    """Return a frame of bools as an array, its columns in the model's order if the frame has them all."""
    if isinstance(form, TableFormat):
        places = {str(name): place for place, name in enumerate(observed.columns)}
        if all(name in places for name in form.site_names):
            observed = observed.iloc[:, [places[name] for name in form.site_names]]
    return observed.to_numpy()
