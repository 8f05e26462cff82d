"""Randomness without state: what is drawn at a step follows from the seed and the step alone.

So a run that was killed needs no memory of its generators to go on as if nothing had happened, and ranks agree without
talking to each other.
"""

from __future__ import annotations

import hashlib

import torch

from tauleap import _device


def seed_of(*words: int | str) -> int:
    """A seed for what ``words`` name, such as ``(seed, "noise", step)``; unrelated for other words.

    >>> seed_of(0, "noise", 1) == seed_of(0, "noise", 1) != seed_of(0, "noise", 2)
    True
    """
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def seed_global(seed: int, device: torch.device) -> None:
    """Seeds the generators that dropout draws from: the CPU's and the device's.

    ``torch.manual_seed`` does more than that, and takes as long as a layer of a small network.
    """
    _device.seed_default(_device.CPU, seed)
    if not _device.is_host(device):
        _device.seed_default(device, seed)
