"""Pushforwards of a distribution on the joint space under steps in which the sites are independent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def push_sites(weights: Tensor, laws: Tensor) -> Tensor:
    """Return sum_n weights[n] prod_d laws[n, d, .], a table (S,)*D.

    Args:
        weights: One weight per joint state, (n,).
        laws: The distribution of every site given the joint state, (n, D, S).

    >>> laws = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    >>> push_sites(torch.tensor([0.5, 0.5]), laws)
    tensor([[0.2500, 0.2500],
            [0.0000, 0.5000]])
    """
    count, sites, size = laws.shape
    joint = weights[:, None]
    for site in range(sites - 1):
        joint = (joint[:, :, None] * laws[:, site, None, :]).reshape(count, -1)
    return (joint.mT @ laws[:, -1]).reshape([size] * sites)


def push_pairs(
    law: Tensor, first: Tensor, second: Callable[[Tensor, int], Tensor], negligible: float = 1e-15
) -> Tensor:
    """Return the pushforward under two stages, where sites are independent in each.

    Pairs (x, x*) are processed one x* at a time, so that its tables stay in the processor's cache.

    Args:
        law: The distribution (S,)*D of x.
        first: The distribution of every site of x* given x, (S^D, D, S).
        second: Returns the distribution of every site of the result, (len(x), D, S), given the indices of several x and
            of one x*.
        negligible: Pairs with a smaller probability are omitted. Default: 1e-15.

    >>> law = torch.tensor([0.5, 0.5])
    >>> flip = torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]])
    >>> push_pairs(torch.tensor([1.0, 0.0]), flip, lambda starts, between: flip[between].expand(len(starts), 1, 2))
    tensor([0.6250, 0.3750])
    """
    count, sites, _ = first.shape
    joint = law.reshape(-1, 1)
    for site in range(sites):
        joint = (joint[:, :, None] * first[:, site, None, :]).reshape(count, -1)
    out = torch.zeros_like(law)
    for between, weights in enumerate(joint.mT.contiguous()):
        start = (weights > negligible).nonzero().squeeze(-1)
        if len(start):
            out += push_sites(weights[start], second(start, between))
    return out
