"""What the bound pays for starting from the prior: KL(q_1|0(. | x0) || prior), in closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import Law, PerSite, States
from tauleap.noise import DenseKernel, ForwardProcess, RankOneKernel
from tauleap.noise.rank_one import at_own_state


def prior_divergence(process: ForwardProcess, x0: States) -> PerSite:
    """KL(q_1|0(. | x0) || prior) of each site, in nats; inf where the prior lacks a state that q has.

    In float64, or in float32 on a device without it.

    For a kernel ``alpha I + (1 - alpha) 1 pi^T`` it is O(S) for all states together:

        KL(x0) = sum_{v != x0} (1 - alpha) pi_v log((1 - alpha) pi_v / prior_v) + a log(a / prior_x0),
        a      = alpha + (1 - alpha) pi_x0

    >>> from tauleap.noise import Absorbing, LogLinear
    >>> prior_divergence(Absorbing(3, LogLinear()), torch.tensor([[0, 1]]))  # 0.001 log 2
    tensor([[0.0007, 0.0007]], dtype=torch.float64)
    """
    # The schedule enters through c(1) alone, which also covers one whose attributes are changed in place.
    noise = float(process.schedule.total(1.0))
    table = process.kept(f"prior divergence at c = {noise!r}", lambda: _table(process))
    if table is None:
        prior = process.prior()
        rows = process.kernel(1.0).rows(x0.to(prior.device), torch.float64)
        return _device.moved_to(_relative(rows, prior).sum(-1), x0.device)
    return _device.moved_to(at_own_state(table, x0), x0.device)


def _table(process: ForwardProcess) -> Law | None:
    """The divergence of every state, (S,) or (*shape, S); None for a kernel of a kind that is not known."""
    kernel, prior = process.kernel(1.0), process.prior()
    if isinstance(kernel, DenseKernel):
        return _relative(kernel.matrix, prior).sum(-1)
    if not isinstance(kernel, RankOneKernel):
        return None
    moved = kernel.moved * kernel.law
    away, arrived = _relative(moved, prior), kernel.stayed + moved
    # The sum over the other states: infinite terms are counted, since taking one away again would be inf - inf.
    infinite = torch.isinf(away)
    finite = torch.where(infinite, 0.0, away)
    others = finite.sum(-1, keepdim=True) - finite
    elsewhere = infinite.sum(-1, keepdim=True) > infinite.long()
    return torch.where(elsewhere, torch.inf, others + _relative(arrived, prior))


def _relative(q: Tensor, p: Tensor) -> Tensor:
    """q log(q / p), 0 where q is."""
    return torch.xlogy(q, q) - torch.xlogy(q, p)
