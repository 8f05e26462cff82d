"""The order in which training visits the rows."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _device
from tauleap._permutation import Permutation
from tauleap._seeds import derive_seed

_LISTED = 2**24
"""Rows up to which a permutation is kept in memory, in 128 MiB at most."""


class Order:
    """Compute an endless sequence of row numbers, in which every epoch is another permutation by the seed.

    For more than 16 million rows the permutation is computed entry by entry instead of stored. A batch may extend over
    the end of an epoch, so that every row is used equally often for any batch size.

    Args:
        rows: The number of rows.
        seed: The seed of the permutations.

    >>> order = Order(4, seed=0)
    >>> sorted(order.take(4, 4).tolist())
    [0, 1, 2, 3]
    """

    def __init__(self, rows: int, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self._epoch, self._permutation = -1, torch.empty(0, dtype=torch.int64)

    def take(self, start: int, count: int) -> Tensor:
        """Return the entries ``start .. start + count - 1`` of the sequence.

        Args:
            start: The first position, from 0.
            count: How many entries.
        """
        pieces = []
        while count > 0:
            epoch, offset = divmod(start, self.rows)
            piece = self._of(epoch, offset, count)
            pieces.append(piece)
            start, count = start + len(piece), count - len(piece)
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _of(self, epoch: int, offset: int, count: int) -> Tensor:
        """Return the next ``count`` entries of an epoch, or as many as it has left."""
        seed = derive_seed(self.seed, "order", epoch)
        if self.rows > _LISTED:
            return Permutation(self.rows, seed).take(torch.arange(offset, min(offset + count, self.rows)))
        if epoch != self._epoch:
            generator = _device.new_generator(_device.CPU, seed)
            self._epoch, self._permutation = epoch, torch.randperm(self.rows, generator=generator)
        return self._permutation[offset : offset + count]
