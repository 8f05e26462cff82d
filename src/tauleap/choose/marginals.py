"""How often each state occurs at each site."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap.data import Dataset

_ROWS, _VALUES = 65536, 2**22
"""Rows at a time, and values at most."""


def column_marginals(data: Dataset) -> Tensor:
    """Return the frequency of each state at each site among the known values, with 1/2 added to each count.

    States that a site does not have get 0. For a file that is larger than memory, a sample of its rows is counted.

    >>> column_marginals(Dataset(torch.tensor([[0], [1], [1]]), 2))
    tensor([[0.3750, 0.6250]], dtype=torch.float64)

    Args:
        data: The rows.

    Returns:
        Probabilities (*shape, S) in float64.
    """
    sites, states = math.prod(data.shape), data.num_states
    counts = torch.zeros(sites, states, dtype=torch.float64)
    for index in data.spread_rows().split(max(1, min(_ROWS, _VALUES // sites))):
        rows = data.rows(index).flatten(1)
        known = torch.ones_like(rows) if data.missing is None else (~data.missing[index]).flatten(1).long()
        counts.scatter_add_(1, rows.T.contiguous(), known.T.double())
    possible = torch.arange(states) < (states if data.sizes is None else data.sizes.reshape(-1, 1))
    counts = (counts + 0.5) * possible
    return (counts / counts.sum(1, keepdim=True)).reshape(*data.shape, states)
