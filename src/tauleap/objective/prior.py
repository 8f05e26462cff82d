"""The prior term of the bound, KL(q_1|0(. | x0) || prior), in closed form."""

from __future__ import annotations

import torch

from tauleap import _device
from tauleap._shapes import PerSite, States
from tauleap.noise import ForwardProcess
from tauleap.noise.kernel import at_own_state, relative_entropy_terms


def prior_divergence(process: ForwardProcess, x0: States) -> PerSite:
    """Return KL(q_1|0(. | x0) || prior) of each site, in nats; inf where the prior lacks a state that q has.

    For rank-one processes it is O(S) for all states together (``RankOneKernel.divergences``).

    Args:
        process: The forward process.
        x0: The data.

    Returns:
        One number per site, in float64, or in float32 on a device without it.

    >>> from tauleap.noise import Absorbing, LogLinear
    >>> prior_divergence(Absorbing(3, LogLinear()), torch.tensor([[0, 1]]))  # 0.001 log 2
    tensor([[0.0007, 0.0007]], dtype=torch.float64)
    """
    # The schedule enters through c(1) alone, which also covers one whose attributes are changed in place.
    noise = float(process.schedule.total(1.0))
    table = process.cached(
        f"prior divergence at c = {noise!r}", lambda: process.kernel(1.0).divergences(process.prior())
    )
    if table is None:
        prior = process.prior()
        rows = process.kernel(1.0).rows(x0.to(prior.device), torch.float64)
        return _device.moved_to(relative_entropy_terms(rows, prior).sum(-1), x0.device)
    return _device.moved_to(at_own_state(table, x0), x0.device)
