"""Cut one long sequence into rows of equal length."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check


def cut(sequence: Tensor, length: int) -> Tensor:
    """Cut a sequence into rows (n, length), without the remainder that does not fill a row.

    >>> cut(torch.arange(7), 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])

    Args:
        sequence: The sequence.
        length: The length of a row.
    """
    length = _check.integer("length", length, least=1)
    rows = len(sequence) // length
    return sequence[: rows * length].reshape(rows, length)


def pad(sequence: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Cut a sequence into rows (n, length), the last one padded with state 0, and return a mask of the padding.

    >>> pad(torch.tensor([4, 5, 6]), 2)
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
