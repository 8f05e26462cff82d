"""How much memory a device has, and how many rows are processed together: as many as fit into it."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tauleap import _device

_UNKNOWN_MEMORY = 4 * 2**30
"""Bytes, for a device whose module does not report its memory: less than any accelerator of the last years has."""
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_MOST_ROWS, _MOST_ROWS_ON_CPU = 2**14, 2**10
"""On a CPU more rows per batch were not faster. The limit of accelerators, which have more lanes to fill, was not
measured."""
_ENTRY_BYTES = 64
"""Memory that sampling takes per entry (rows x sites x states): 17 to 76 bytes were measured, by sampler and network.

Long leaps, in which a site jumps dozens of times, take more, because each jump is drawn.
"""


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory that a device has, those in use by others included.

    The number is the same at every call on one machine, so that what is derived from it (the default batch size, on
    which samples depend) is too.

    Args:
        device: a device of this machine.
    """
    if _device.is_host(device):
        return min(_limits())
    module = torch.get_device_module(device)
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info(device)[1])
    if hasattr(module, "recommended_max_memory"):  # mps, which shares the memory of the CPU
        return int(module.recommended_max_memory())
    if hasattr(module, "get_device_properties"):
        return int(module.get_device_properties(device).total_memory)
    return _UNKNOWN_MEMORY


def batch_memory(device: torch.device) -> int:
    """Return the memory in bytes that a batch may take by default.

    On the CPU 1 GiB, or an eighth of the memory where that is less; on an accelerator a quarter of its memory, which
    leaves room for the weights, the kernels and other processes.

    Args:
        device: a device of this machine.
    """
    if _device.is_host(device):
        return min(2**30, total_memory(device) // 8)
    return total_memory(device) // 4


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


def _limits() -> list[int]:
    """Return the memory of the machine, and the limit of the container if there is one."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CGROUP_LIMITS:
        try:
            found.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return found
