"""The theta-trapezoidal method: two leaps, the second with extrapolated rates."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerState, States
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.reverse.base import check_rates
from tauleap.sampling.sampler import Sampler, StepInfo


class Trapezoidal(Sampler):
    """Take two leaps, the second with extrapolated rates (Anderson and Koyama 2012; Ren et al. 2025).

        x* = leap from x over theta tau with Rhat_t(x)
        x' = leap from x* over (1 - theta) tau with (a1 Rhat_u(x*) - a2 Rhat_t(x))_+          u = t - theta tau
        a1 = 1 / (2 theta (1 - theta)),        a2 = ((1 - theta)^2 + theta^2) / (2 theta (1 - theta))

    The difference is taken for each destination v, and the last jump at a site counts (see ``TauLeaping``). Since
    ``a1 - a2 = 1``, the second leap has the rates at u plus a2 times their change since t, which corrects the errors of
    both leaps. Two network evaluations per step.

    The order is 2 for smooth distributions. Where a rate falls to less than a2/a1 of its earlier value, as it does at a
    site that has just jumped under uniform or absorbing noise, the extrapolated rate would be negative; it is set to 0,
    and the order falls to 1 for short steps. ``theta = 1/2``, where a2/a1 = 1/2, clamps least. ``FirstJump`` and
    ``Extrapolated`` do not have this loss at single sites.

    Args:
        theta: The fraction of the step before the second evaluation, in (0, 1). Default: 0.5.

    Raises:
        TypeError: ``theta`` is not a number.
        ValueError: ``theta`` is not in (0, 1).

    >>> Trapezoidal()
    Trapezoidal()
    """

    order = 2.0

    def __init__(self, theta: float = 0.5) -> None:
        if isinstance(theta, bool) or not isinstance(theta, Real):
            raise TypeError(f"theta must be a number in (0, 1), got {theta!r}")
        if not 0 < theta < 1:
            raise ValueError(f"theta must lie strictly between 0 and 1, got {theta!r}")
        self.theta = float(theta)

    @property
    def weights(self) -> tuple[float, float]:
        """Return the weights a1 and a2."""
        theta = self.theta
        return 1 / (2 * theta * (1 - theta)), ((1 - theta) ** 2 + theta**2) / (2 * theta * (1 - theta))

    def step(
        self,
        reverse: ReverseProcess,
        x_t: States,
        t: float,
        s: float,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[States, StepInfo]:
        x = self.enter(reverse, x_t, t, s, observed)
        u = t - self.theta * (t - s)
        rates = reverse.at(x, t, observed=observed, condition=condition, checked=True).evaluated().rates
        between = _last_jump(x, rates, t - u, generator)
        a1, a2 = self.weights
        extrapolated = reverse.at(between, u, observed=observed, condition=condition, checked=True).evaluated().rates
        extrapolated = extrapolated.mul_(a1).sub_(rates, alpha=a2).scatter_(-1, between[..., None], 0.0)
        clamped = (extrapolated < 0).any(-1)
        out = _last_jump(between, extrapolated.clamp_(min=0), u - s, generator)
        return out, StepInfo.count(x, out, evaluations=2.0, observed=observed, clamped=clamped)

    def __repr__(self) -> str:
        return f"Trapezoidal({'' if self.theta == 0.5 else f'theta={self.theta:g}'})"


def _last_jump(x: States, rates: PerState, tau: float, generator: torch.Generator | None) -> States:
    """Return the states after a leap with the given rates in which the last jump counts."""
    exits = rates.sum(-1).reshape(-1).to(torch.float64)
    check_rates(exits)
    moving = (_draw.uniforms(exits.shape, x.device, generator) < -torch.expm1(-tau * exits)).nonzero().squeeze(-1)
    destinations = _draw.categorical(rates.reshape(-1, rates.shape[-1])[moving], generator)
    return x.reshape(-1).clone().index_copy_(0, moving, destinations).reshape(x.shape)
