"""Permutations of any number of rows that take no memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_ROUNDS = 6
"""Four make a Feistel network a pseudo-random permutation in theory; two more cost little."""


class Permutation:
    """Compute a pseudo-random permutation of ``0 .. size-1``, which follows from a seed, entry by entry.

    A Feistel network permutes the next power of four; entries that fall outside are permuted again until they are
    inside, which takes four turns at most on average.

    >>> sorted(Permutation(5, seed=0).take(torch.arange(5)).tolist())
    [0, 1, 2, 3, 4]

    Args:
        size: how many entries.
        seed: any whole number.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self._bits = max(1, -(-(size - 1).bit_length() // 2))
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def take(self, index: Tensor) -> Tensor:
        """Return the entries at the positions ``index``.

        Args:
            index: int64 (n,), each in ``0 .. size-1``.
        """
        value = self._permute(index.numpy().astype(np.uint64))
        outside = value >= self.size
        while outside.any():
            value[outside] = self._permute(value[outside])
            outside = value >= self.size
        return torch.from_numpy(value.astype(np.int64))

    def _permute(self, value: np.ndarray) -> np.ndarray:
        bits, mask = np.uint64(self._bits), np.uint64(2**self._bits - 1)
        left, right = value >> bits, value & mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right + key) & mask)
        return left << bits | right


def _mix(value: np.ndarray) -> np.ndarray:
    """Return the finaliser of SplitMix64, in which every bit depends on every bit of the argument."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
