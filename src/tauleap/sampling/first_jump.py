"""A step split at its first jump."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import States
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.reverse.at import structure_of
from tauleap.reverse.base import check_rates
from tauleap.sampling.sampler import Sampler, StepInfo


class FirstJump(Sampler):
    """Split each step at its first jump: order 2 for rank-one noise, with one or two network evaluations per step.

    For uniform, absorbing and any other rank-one noise. A first-order step ignores that the first jump of a sample
    changes the rates of its other sites. Here the step is split at that jump: its time and site are drawn from p(. |
    x), the denoiser is evaluated at the state after it, and the rest of the step is ancestral with this prediction. The
    remaining error takes three jumps in one step, so the error of a step is of order 3 and that of the distribution of
    order 2, and no weight is ever negative. Two sites under absorbing noise are sampled exactly. A sample without a
    jump needs no second evaluation.

    The denoiser is evaluated at the middle of each of the two parts, and each site's own evidence is corrected (see
    ``Ancestral``, ``look_ahead``), so that the change of the rates in time is also accurate to order 2.

    It pays where a sample makes few jumps per step. Where it makes many, as a long sequence does on a coarse grid, the
    first jump comes early, and the result is about that of ``Ancestral(look_ahead=0.5)``.

    >>> FirstJump()
    FirstJump()
    """

    order = 2.0

    def check(self, process: ForwardProcess) -> None:
        if not structure_of(process).knows_first_jump:
            name = type(process).__name__
            raise ValueError(
                f"FirstJump() needs the closed forms of a rank-one process (Uniform, Absorbing, RankOne), got {name}: "
                f"for {name} write Extrapolated() or Trapezoidal()"
            )

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
        u = (t + s) / 2
        middle = reverse.at(x, u, observed=observed, condition=condition, checked=True).deferred()
        start = reverse.at(x, t, observed=observed, posterior=middle.with_own_evidence(x, t), checked=True)
        times = start.draw_first_jump(s, generator=generator)
        going = (times > s).nonzero().squeeze(-1)
        if not len(going):
            return x, StepInfo.count(x, x, evaluations=middle.evaluations, observed=observed)

        here, times = x[going], times[going]
        here_observed, here_condition = select_rows(observed, condition, going)
        posterior = start.posterior.rearranged(lambda values: values[going])
        posterior = reverse.with_own_evidence(posterior, here, t, here, times)
        outgoing = reverse.at(here, times, observed=here_observed, posterior=posterior, checked=True).jumps
        exits = check_rates(outgoing.exit_rate).flatten(1)
        rows, sites = torch.arange(len(going), device=x.device), _draw.categorical(exits, generator)
        chosen = rows * exits.shape[1] + sites
        to = outgoing.draw(chosen, generator)
        here = here.reshape(-1).index_copy(0, chosen, to).reshape(here.shape)

        u = (times + s) / 2
        later = reverse.at(here, u, observed=here_observed, condition=here_condition, checked=True).deferred()
        posterior = later.with_own_evidence(here, times)
        after = reverse.at(here, times, observed=here_observed, posterior=posterior, checked=True)
        here = after.draw_step(s, generator=generator)
        out = x.index_copy(0, going, here)
        evaluations = middle.evaluations + later.evaluations * len(going) / len(x)
        return out, StepInfo.count(x, out, evaluations=evaluations, observed=observed)

    def __repr__(self) -> str:
        return "FirstJump()"
