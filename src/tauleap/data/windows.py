"""One long sequence, cut into rows of equal length."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check


def whole(sequence: Tensor, length: int) -> Tensor:
    """Return a sequence as rows (n, length), without the rest that does not fill a row.

    >>> whole(torch.arange(7), 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])

    Args:
        sequence: The sequence.
        length: The length of a row.
    """
    length = _check.integer("length", length, least=1)
    rows = len(sequence) // length
    return sequence[: rows * length].reshape(rows, length)


def padded(sequence: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Return a sequence as rows (n, length), and which sites of the last row are missing; they have state 0.

    >>> padded(torch.tensor([4, 5, 6]), 2)
    (tensor([[4, 5],
            [6, 0]]), tensor([[False, False],
            [False,  True]]))

    Args:
        sequence: The sequence.
        length: The length of a row.
    """
    length = _check.integer("length", length, least=1)
    rows = -(-len(sequence) // length)
    x = torch.zeros(rows * length, dtype=sequence.dtype)
    x[: len(sequence)] = sequence
    missing = torch.arange(rows * length) >= len(sequence)
    return x.reshape(rows, length), missing.reshape(rows, length)
