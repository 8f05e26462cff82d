"""Batch sizes: how many rows are processed together, as many as fit into the memory of a device."""

from __future__ import annotations

import torch

from tauleap import _device, _memory

_MOST_ROWS, _MOST_ROWS_ON_CPU = 2**14, 2**10
"""On a CPU more rows per batch were not faster. The limit of accelerators, which have more lanes to fill, was not
measured."""
_ENTRY_BYTES = 64
"""Memory that sampling takes per entry (rows x sites x states): 17 to 76 bytes were measured, by sampler and network.

Long leaps, in which a site jumps dozens of times, take more, because each jump is drawn.
"""


def batch_memory(device: torch.device) -> int:
    """Return the memory in bytes that a batch may take by default.

    On the CPU 1 GiB, or an eighth of the memory where that is less; on an accelerator a quarter of its memory, which
    leaves room for the weights, the kernels and other processes.

    Args:
        device: a device of this machine.
    """
    if _device.is_host(device):
        return min(2**30, _memory.total_memory(device) // 8)
    return _memory.total_memory(device) // 4


def default_batch_size(device: torch.device, entries: int, *, evaluations: int = 1, memory: float | None = None) -> int:
    """Return how many rows are processed together by default, at least 1.

    Args:
        device: where the model is.
        entries: sites times states of one row.
        evaluations: network evaluations per row that are batched together, such as 2 for guidance. Default: 1.
        memory: bytes that the batch may take. Default: :func:`batch_memory`.
    """
    most = _MOST_ROWS_ON_CPU if _device.is_host(device) else _MOST_ROWS
    budget = batch_memory(device) if memory is None else memory
    return max(1, min(most, int(budget / (_ENTRY_BYTES * evaluations * entries))))
