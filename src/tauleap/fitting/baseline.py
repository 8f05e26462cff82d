"""The baseline of every model: independent sites with the marginals of the training rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap.choose import column_marginals
from tauleap.data import Dataset
from tauleap.evaluate import independent_bits_per_dim

_ROWS = 4096
"""Rows per part, because int64 states of pictures need eight times the memory of their bytes."""


def independent_rows(train: Dataset, held_out: Dataset, rows: int) -> Tensor:
    """Return bits/dim of each of the first rows under independent sites with the marginals of the training rows.

    If rows have labels, the marginals are those of the training rows with the same label.

    Args:
        train: The rows whose states are counted, with 1/2 added to each count.
        held_out: The rows to measure.
        rows: The number of rows to measure, from the first.

    Returns:
        Bits/dim, (rows,).
    """
    x, missing, given = held_out.batch(torch.arange(rows))
    labels = train.condition
    bits = independent_bits_per_dim(x, column_marginals(train), missing=missing)
    if labels is None or given is None or labels.ndim != 1 or labels.is_floating_point():
        return bits
    for label in given.unique():
        members, at = (labels == label).nonzero().flatten(), (given == label).nonzero().flatten()
        if len(members) > 0:
            own = None if missing is None else missing[at]
            bits[at] = independent_bits_per_dim(x[at], column_marginals(train.select(members)), missing=own)
    return bits


def varying_sites(data: Dataset) -> int:
    """Return the number of sites that have more than one state among the values that are not missing.

    Args:
        data: The rows.

    >>> varying_sites(Dataset(torch.tensor([[0, 1], [0, 2]]), 3))
    1
    """
    sites = math.prod(data.shape)
    lowest, highest = torch.full((sites,), data.num_states), torch.full((sites,), -1)
    for index in data.spread_rows().split(_ROWS):
        low = high = data.rows(index).flatten(1)
        if data.missing is not None:
            unknown = data.missing[index].flatten(1)
            low, high = low.masked_fill(unknown, data.num_states), high.masked_fill(unknown, -1)
        lowest, highest = torch.minimum(lowest, low.amin(0)), torch.maximum(highest, high.amax(0))
    return int((lowest < highest).sum())
