"""``--observed``: which sites of a row are known, as ranges and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from tauleap.data import Dataset, Format


def observed_mask(text: str, shape: tuple[int, ...], names: Sequence[str] = ()) -> Tensor:
    """Return a bool mask (*shape) of the sites in ``--observed``: ranges, positions or column names.

    Positions count the sites of a row from 0, in row-major order; negative ones count from the end, as in Python.

    >>> observed_mask("0:2,-1", (5,))
    tensor([ True,  True, False, False,  True])
    >>> observed_mask("size", (3,), ["day", "size", "place"])
    tensor([False,  True, False])

    Args:
        text: The value of the option, such as "0:32,40"; the end of a range is not in it.
        shape: The shape of a row.
        names: The names of the sites, if they have any. Default: none.

    Raises:
        ValueError: A position is out of range, or a name is unknown.
    """
    import torch

    sites = math.prod(shape)
    mask = torch.zeros(sites, dtype=torch.bool)
    for piece in text.split(","):
        word = piece.strip()
        if word in names:
            mask[names.index(word)] = True
            continue
        begin, colon, end = word.partition(":")
        try:
            first = _position(begin, 0 if colon else None, sites)
            last = _position(end, sites, sites) if colon else first + 1
        except ValueError as error:
            columns = f", or one of the columns {', '.join(names)}" if names else ""
            raise ValueError(
                f"--observed must be positions or ranges below {sites}, such as 0:32,40{columns}, got {word!r}"
            ) from error
        mask[first:last] = True
    return mask.reshape(shape)


def observed_values(text: str | None, form: Format, data: Dataset, file: Path | None) -> Tensor:
    """Return which values are conditioned on if they are not missing, bool (n, *shape).

    Args:
        text: The value of the option; None for all values that are not missing.
        form: The format of the rows.
        data: The rows.
        file: Their file, for messages.

    Raises:
        ValueError: Every value is known.
    """
    import torch

    mask = None if text is None else observed_mask(text, form.shape, form.site_names)
    known = data.known()
    observed = torch.ones_like(known) if mask is None else mask.expand(known.shape)
    # Cells of a table that cannot be read are unknown to the model, but they stay as they are.
    filled = form.filled(data, observed)
    if not bool(filled.any()):
        unreadable = int((~(known & observed) & ~filled).sum())
        also = f"; {unreadable_cells(unreadable)}: empty what is to be filled in" if unreadable else ""
        raise ValueError(f"{file} has no missing values to fill in: {form.completion_remedy}{also}")
    return observed


def unreadable_cells(number: int) -> str:
    """Return a phrase that says what happens to cells of a table that a model cannot read.

    Args:
        number: The number of these cells.

    >>> unreadable_cells(2)
    '2 unreadable cells stay as they are'
    """
    return "1 unreadable cell stays as it is" if number == 1 else f"{number:,} unreadable cells stay as they are"


def _position(text: str, default: int | None, sites: int) -> int:
    if text == "" and default is not None:
        return default
    position = int(text)
    position = position + sites if position < 0 else position
    if not 0 <= position <= sites or (default is None and position == sites):
        raise ValueError(f"{text} is out of range: positions are 0..{sites - 1}")
    return position
