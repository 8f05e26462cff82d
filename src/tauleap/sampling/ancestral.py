"""Ancestral sampling: D3PM's kernel between any two times."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor

from tauleap._shapes import States
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling.sampler import Sampler, StepInfo


class Ancestral(Sampler):
    """Every site on its own is drawn from what its x0 would lead to (Section 2; Austin et al. 2021):

        p(x_s) = sum_x0 p(x0 | x) q_s|0(x_s | x0) q_t|s(x | x_s) / q_t|0(x | x0)

    Jumps of one site are treated exactly, however many come in a step; what is missed is that the other sites move
    meanwhile. So a single site is sampled exactly on any grid, and several with an error of order 1 (Appendix G). With
    a continuous-time model this is the analytic step; with one trained by ``DiscreteTimeElbo(steps=K)`` on the grid
    ``1, (K-1)/K, ..., 1/K`` and ``final="sample"`` it is D3PM sampling. One evaluation a step.

    ``look_ahead`` asks the denoiser at another time of the step, ``u = t - look_ahead (t - s)``, still about the state
    at t, and then puts the site's own part right, p(x0) q_t|0(x | x0) / q_u|0(x | x0): what is taken from u is what the
    *other* sites say. At 1/2 the error from their growing clearer is of order 2, and the whole error about half; at 0
    it is the formula above. It makes no difference where the posterior does not depend on time (absorbing noise).
    """

    order = 1.0

    def __init__(self, look_ahead: float = 0.0) -> None:
        if isinstance(look_ahead, bool) or not isinstance(look_ahead, Real):
            raise TypeError(f"look_ahead must be a number in [0, 1], got {look_ahead!r}")
        if not 0 <= look_ahead <= 1:
            raise ValueError(f"look_ahead must be a part of the step, in [0, 1], got {look_ahead!r}")
        self.look_ahead = float(look_ahead)

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
        u = t - self.look_ahead * (t - s)
        if u == 0:
            raise ValueError("at time 0 there is nothing to guess: take look_ahead < 1 for a step to time 0")
        at = reverse.at(x, u, observed=observed, condition=condition).checked()
        if u != t:
            at = reverse.at(x, t, observed=observed, posterior=at.with_own_evidence(x, t))
        out = at.draw_step(s, generator=generator)
        return out, StepInfo.count(x, out, evaluations=1.0, observed=observed)

    def __repr__(self) -> str:
        return f"Ancestral({'' if self.look_ahead == 0 else f'look_ahead={self.look_ahead:g}'})"
