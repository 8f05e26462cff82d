"""Independent sites, the baseline that every model of a dataset must beat."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap.choose import column_marginals
from tauleap.data import Dataset
from tauleap.evaluate import independent_bits_per_dim

_ROWS = 4096
"""Rows at a time, so that pictures kept as bytes do not take eight times their memory."""


def independent_rows(train: Dataset, held_out: Dataset, rows: int) -> Tensor:
    """Return bits/dim of each of the first rows under independent sites with the marginals of the training rows.

    Where rows have labels, the marginals are those of the training rows with the same label.

    Args:
        train: the rows that the marginals are counted in, with 1/2 added to each count.
        held_out: the rows to measure.
        rows: how many of them, from the first.
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
    """Return how many sites have more than one state among the known values.

    Args:
        data: the rows.
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
