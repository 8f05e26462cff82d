"""How many rows are worked on together: as many as fit into the memory of a device."""

from __future__ import annotations

import torch

from tauleap import _device

_MOST_ROWS, _MOST_ROWS_ON_CPU = 2**14, 2**10
"""On a CPU more rows per batch have not been faster; an accelerator, not measured, has many more lanes to fill."""
_ENTRY_BYTES = 64
"""What sampling takes for each entry (rows x sites x states): 17 to 76 bytes were measured, by sampler and network.

Leaps so long that a site jumps dozens of times take more, for each jump is drawn.
"""


def batch_memory(device: torch.device) -> int:
    """Return the bytes that a batch may take by default.

    On the CPU 1 GiB, or an eighth of the memory where that is less; on an accelerator a quarter of its memory, which
    leaves room for the weights, the kernels and other processes.

    Args:
        device: a device of this machine.
    """
    if _device.is_host(device):
        return min(2**30, _device.total_memory(device) // 8)
    return _device.total_memory(device) // 4


def batch_rows(device: torch.device, entries: int, *, memory: float | None = None) -> int:
    """Return how many rows are worked on together by default, 1 at least.

    Args:
        device: where the model is.
        entries: sites times states of one row.
        memory: bytes that the batch may take. Default: :func:`batch_memory`.
    """
    most = _MOST_ROWS_ON_CPU if _device.is_host(device) else _MOST_ROWS
    budget = batch_memory(device) if memory is None else memory
    return max(1, min(most, int(budget / (_ENTRY_BYTES * entries))))
