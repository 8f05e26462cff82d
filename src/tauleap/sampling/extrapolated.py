"""Two ancestral steps, the second with an extrapolated posterior."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import States
from tauleap.denoise import Posterior
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling.sampler import Sampler, StepInfo


class Extrapolated(Sampler):
    """The trapezoidal idea applied to the posterior instead of the rates; two evaluations a step.

        x* ~ ancestral step from x, t to the middle u, with p(. | x, t)
        x' ~ ancestral step from x*, u to s, with 2 p(. | x*, u) - p~,  its negative part set to 0
        p~(x0) ~ p(x0 | x, t) q_u|0(x* | x0) / q_t|0(x | x0)

    p~ is the first prediction transferred to x*: a site's own move is accounted for exactly
    (``reverse.with_own_evidence``), the moves of the others not at all. So the two differ by what the other sites have
    done, and the extrapolation corrects
    that alone, where ``Trapezoidal`` also has to mend jumps of one site. A single site is sampled exactly. The order is
    2 where no posterior falls to less than half, as for smooth laws of ordinal data; where it does the positive part
    leaves an error of order 1, which is small (see ``FirstJump`` for a step without it).
    """

    order = 2.0

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
        first = reverse.at(x, t, observed=observed, condition=condition).checked()
        u = (t + s) / 2
        between = first.draw_step(u, generator=generator)
        second = reverse.posterior(between, u, observed=observed, condition=condition)
        probs = 2 * second.probs - first.with_own_evidence(between, u).probs
        clamped = (probs < 0).any(-1)
        posterior = Posterior(probs.clamp_(min=0).log_())
        out = reverse.draw_step(between, u, s, observed=observed, posterior=posterior, generator=generator)
        return out, StepInfo.count(x, out, evaluations=2.0, observed=observed, clamped=clamped)

    def __repr__(self) -> str:
        return "Extrapolated()"
