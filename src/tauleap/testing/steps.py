"""Errors of the steps of a grid as relative entropies, computed by enumeration of all states instead of sampling."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise

import torch
from torch import Tensor

from tauleap.denoise import Posterior
from tauleap.evaluate import pushforward
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess


def joint_kernel(process: ForwardProcess, sites: int, t: float, s: float = 0.0) -> Tensor:
    """Return q_t|s between joint states, (S^D, S^D): rows are the states at s."""
    out = torch.ones(1, 1, dtype=torch.float64)
    for kernel in site_kernels(process, (sites,), t, s):
        out = torch.kron(out, kernel)
    return out


def step_errors(reverse: ReverseProcess, law: Tensor, grid: Iterable[float]) -> Tensor:
    """Return E KL(q(x_s | x_t) || ancestral step) of every step, (steps,), for the law of the data and all noise.

    Their sum is the relative entropy of the joint laws of all states at the times of the grid, started from q at the
    first.
    """
    errors, x = [], joint_states(law.shape[0], law.ndim)
    for t, s in pairwise(grid):
        early, late = (pushforward.marginal(reverse, law, time).reshape(-1) for time in (s, t))
        joint = early[:, None] * joint_kernel(reverse.process, law.ndim, t, s)  # q(x_s, x_t), rows are x_s
        known = torch.where(late > 0, joint / torch.where(late > 0, late, 1.0), 0.0)  # q(x_s | x_t)
        posterior = Posterior(reverse.posterior(x, t).logits.double())
        drawn = torch.ones(len(x), 1, dtype=torch.float64)  # p(x_s | x_t), rows are x_t
        for site in reverse.step_probs(x, t, s, posterior=posterior).unbind(1):
            drawn = (drawn[:, :, None] * site[:, None]).flatten(1)
        errors.append(torch.where(joint > 0, joint * (known / drawn.mT).log(), 0.0).sum())
    return torch.stack(errors)


def mean_entropies(law: Tensor) -> list[float]:
    """Return h(j) for j = 0, 1, ...: the mean entropy of a site given j others, over all sites and sets of others."""

    def entropy(of: tuple[int, ...]) -> float:
        rest = [site for site in range(law.ndim) if site not in of]
        return float(torch.special.entr(law.sum(rest) if rest else law).sum())

    out = []
    for j in range(law.ndim):
        each = [
            entropy((*known, site)) - entropy(known)
            for site in range(law.ndim)
            for known in combinations([other for other in range(law.ndim) if other != site], j)
        ]
        out.append(sum(each) / len(each))
    return out


def relative_entropy(law: Tensor, other: Tensor) -> float:
    """Return KL(law || other) in nats."""
    return float(torch.where(law > 0, law * (law / other).log(), 0.0).sum())
