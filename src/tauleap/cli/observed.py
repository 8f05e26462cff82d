"""``--observed``: which sites of a row are known, as ranges and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def observed_mask(text: str, shape: tuple[int, ...], names: Sequence[str] = ()) -> Tensor:
    """Return a bool mask (*shape) of the sites that ``--observed`` names: ranges, single places, names of columns.

    Places count through a row from 0, in the order of its axes; negative ones from the end, as in Python.

    >>> observed_mask("0:2,-1", (5,))
    tensor([ True,  True, False, False,  True])
    >>> observed_mask("size", (3,), ["day", "size", "place"])
    tensor([False,  True, False])

    Args:
        text: The value of the option, such as "0:32,40"; the end of a range is not in it.
        shape: The shape of a row.
        names: The names of the sites, if they have any.
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
            first = _place(begin, 0 if colon else None, sites)
            last = _place(end, sites, sites) if colon else first + 1
        except ValueError as error:
            known = f", or one of the columns {', '.join(names)}" if names else ""
            raise ValueError(
                f"--observed must be places or ranges below {sites} such as 0:32,40{known}, got {word!r}"
            ) from error
        mask[first:last] = True
    return mask.reshape(shape)


def _place(text: str, default: int | None, sites: int) -> int:
    if text == "" and default is not None:
        return default
    place = int(text)
    place = place + sites if place < 0 else place
    if not 0 <= place <= sites or (default is None and place == sites):
        raise ValueError(f"{text} is beyond {sites}")
    return place
