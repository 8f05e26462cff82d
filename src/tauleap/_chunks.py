"""Rows a piece at a time, so that what is made on the way stays in the cache, and out of the memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tauleap import _device

_ENTRIES = 2**18


def chunks(rows: int, states: int, device: torch.device, entries: int | None = None) -> Iterator[slice]:
    """Slices of rows with about ``entries`` entries each; one for all where a cache is not what counts."""
    number = max(1, round(rows * states / (entries or _ENTRIES))) if _device.is_host(device) else 1
    at_once = max(1, -(-rows // number))
    return (slice(start, start + at_once) for start in range(0, rows, at_once))
