"""Process rows block by block, so that intermediate results stay in the cache and memory is bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from tauleap import _device

_ENTRIES = 2**18


def chunks(
    rows: int, entries_per_row: int, device: torch.device, entries: int = _ENTRIES, *, at_most: bool = False
) -> Iterator[slice]:
    """Return slices of rows of nearly equal size; one for all rows on devices where a cache does not matter.

    Args:
        rows: the number of rows.
        entries_per_row: the size of a row.
        device: where the rows are.
        entries: about how many entries a slice has.
        at_most: whether ``entries`` is a limit, up to the size of a row.

    >>> list(chunks(6, 2**17, torch.device("cpu")))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    number = 1
    if _device.is_host(device):
        ratio = rows * entries_per_row / entries
        number = max(1, math.ceil(ratio) if at_most else round(ratio))
    at_once = max(1, -(-rows // number))
    return (slice(start, min(start + at_once, rows)) for start in range(0, rows, at_once))
