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
    """Sample each site independently from the D3PM kernel p(x_s | x_t) (Section 2; Austin et al. 2021).

        p(x_s) = sum_x0 p(x0 | x) q_s|0(x_s | x0) q_t|s(x | x_s) / q_t|0(x | x0)

    Several jumps of one site within a step are treated exactly; the change of the other sites during the step is not.
    So a single site is sampled exactly on any grid, and several sites with an error of order 1 (Appendix G). With a
    continuous-time model this is the analytic step; with a model trained by ``DiscreteTimeElbo(steps=K)`` on the grid
    ``1, (K-1)/K, ..., 1/K`` and ``final="sample"`` it is D3PM sampling. One network evaluation per step. This is the
    default for most requests; docs/samplers.md has the measurements, in which other samplers have smaller errors for
    the same number of evaluations on some tasks.

    With ``look_ahead`` the denoiser is evaluated at another time of the step, ``u = t - look_ahead (t - s)``, for the
    state at t, and each site's own evidence is then corrected, p(x0) q_t|0(x | x0) / q_u|0(x | x0): only the evidence
    of the *other* sites is that of time u. At 1/2 the error from the change of that evidence is of order 2, and the
    total error about half; at 0 it is the formula above. It makes no difference if the posterior does not depend on
    time (absorbing noise).

    Args:
        look_ahead: The fraction of the step, in [0, 1], by which the time of the evaluation is earlier. Default: 0.

    Raises:
        TypeError: ``look_ahead`` is not a number.
        ValueError: ``look_ahead`` is not in [0, 1].

    >>> Ancestral(look_ahead=0.5)
    Ancestral(look_ahead=0.5)
    """

    order = 1.0

    def __init__(self, look_ahead: float = 0.0) -> None:
        if isinstance(look_ahead, bool) or not isinstance(look_ahead, Real):
            raise TypeError(f"look_ahead must be a number in [0, 1], got {look_ahead!r}")
        if not 0 <= look_ahead <= 1:
            raise ValueError(f"look_ahead must be a fraction of the step, in [0, 1], got {look_ahead!r}")
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
            raise ValueError(
                "look_ahead = 1 cannot be used for a step to time 0, where there is no noise: write look_ahead < 1"
            )
        at = predicted = reverse.at(x, u, observed=observed, condition=condition, checked=True).deferred()
        if u != t:
            at = reverse.at(x, t, observed=observed, posterior=predicted.with_own_evidence(x, t), checked=True)
        out = at.draw_step(s, generator=generator)
        return out, StepInfo.count(x, out, evaluations=predicted.evaluations, observed=observed)

    def __repr__(self) -> str:
        return f"Ancestral({'' if self.look_ahead == 0 else f'look_ahead={self.look_ahead:g}'})"
