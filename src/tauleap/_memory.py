"""How much memory a device has."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tauleap import _device

_UNKNOWN_MEMORY = 4 * 2**30
"""Bytes, for a device whose module does not report its memory: less than any accelerator of the last years has."""
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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


def _limits() -> list[int]:
    """Return the memory of the machine, and the limit of the container if there is one."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CGROUP_LIMITS:
        try:
            found.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return found
