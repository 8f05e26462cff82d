"""What the bound pays for starting from the prior: KL(q_1|0(. | x0) || prior), in closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import PerSite, States
from tauleap.noise import DenseKernel, ForwardProcess, RankOneKernel
from tauleap.noise.rank_one import at_own_state


def prior_divergence(process: ForwardProcess, x0: States) -> PerSite:
    """KL(q_1|0(. | x0) || prior) of each site, in nats, in float64; inf where the prior lacks a state that q has.

    For a kernel ``alpha I + (1 - alpha) 1 pi^T`` it is O(S) for all states together:

        KL(x0) = sum_{v != x0} (1 - alpha) pi_v log((1 - alpha) pi_v / prior_v) + a log(a / prior_x0),
        a      = alpha + (1 - alpha) pi_x0

    >>> from tauleap.noise import Absorbing, LogLinear
    >>> prior_divergence(Absorbing(3, LogLinear()), torch.tensor([[0, 1]]))  # 0.001 log 2
    tensor([[0.0007, 0.0007]], dtype=torch.float64)
    """
    kernel, prior = process.kernel(1.0), process.prior().to(torch.float64)
    if isinstance(kernel, RankOneKernel):
        moved = kernel.moved * kernel.law
        away = _relative(moved, prior)
        arrived = kernel.stayed + moved
        table = away.sum(-1, keepdim=True) - away + _relative(arrived, prior)
        # A sum that is infinite without x0 must not become inf - inf: add up the others where there is an infinity.
        if bool(torch.isinf(away).any()):
            infinite = torch.isinf(away)
            finite = torch.where(infinite, 0.0, away)
            others = infinite.sum(-1, keepdim=True) - infinite.long()
            table = finite.sum(-1, keepdim=True) - finite + _relative(arrived, prior)
            table = torch.where(others > 0, torch.inf, table)
        return at_own_state(table, x0).to(x0.device)
    if isinstance(kernel, DenseKernel) and prior.ndim == 1:
        table = kernel.table("prior divergence", torch.float64, lambda: _relative(kernel.matrix, prior).sum(-1)[None])
        return table[0].to(x0.device)[x0]
    return _relative(kernel.rows(x0, torch.float64), prior.to(x0.device)).sum(-1)


def _relative(q: Tensor, p: Tensor) -> Tensor:
    """q log(q / p), 0 where q is."""
    return torch.xlogy(q, q) - torch.xlogy(q, p)
