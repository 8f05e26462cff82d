"""Uniformization: exact simulation of the learned chain, without any grid."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import States
from tauleap.observed import Observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.reverse.base import check_rates
from tauleap.sampling.sampler import Sampler, StepInfo


class Uniformization(Sampler):
    """Simulate the learned chain exactly by thinning, without a time discretisation (Chen and Ying 2024).

    Candidates for a jump come from a Poisson process whose rate bounds every exit rate, for any prediction of the
    denoiser (see ``reverse.bound``); at a candidate the denoiser is evaluated, and the site jumps with probability exit
    rate over bound. Every sample has its own clock; one pass of the denoiser serves the candidates of all samples that
    are not finished.

    One network evaluation per candidate. With birth/death noise over many states the bound is far above the rates, and
    candidates are many. The points of the grid only determine where the run can be observed.

    >>> Uniformization()
    Uniformization()
    """

    order = math.inf

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
        if s == 0:
            raise ValueError(
                "the bound on the rates is infinite at time 0: write a grid that ends later, such as end=0.01"
            )
        schedule, bound = reverse.process.schedule, reverse.exit_bound(s, t)
        end = float(schedule.total(s))
        out, jumps = x.clone(), torch.zeros_like(x)
        free = torch.ones_like(x, dtype=torch.bool) if observed is None else ~observed.mask
        clock = schedule.total(torch.full((len(x),), t, dtype=torch.float64, device=x.device))
        going, evaluated = torch.arange(len(x), device=x.device), 0
        while True:
            clock[going] = bound.next_event(out[going], free[going], clock[going], generator)
            going = going[clock[going] > end]
            if not len(going):
                break
            here, c = out[going], clock[going]
            here_observed, here_condition = select_rows(observed, condition, going)
            times = schedule.inverse_total(c).clamp(s, t)
            kernel = reverse.process.kernel(times)  # held, so that an exact denoiser does not compute it again
            at = reverse.at(here, times, observed=here_observed, condition=here_condition, kernel=kernel)
            outgoing = at.deferred().jumps
            limits = torch.where(free[going], bound.at(here, c), 0.0).flatten(1)
            sites = _draw.categorical(limits, generator)
            rows = torch.arange(len(going), device=x.device)
            exits = check_rates(outgoing.exit_rate_at(rows * limits.shape[1] + sites))
            chance = exits / (limits[rows, sites] * schedule.rate(times))
            jumping = (_draw.uniforms(chance.shape, x.device, generator) < chance).nonzero().squeeze(-1)
            which = sites[jumping]
            to = outgoing.draw(jumping * limits.shape[1] + which, generator)
            evaluated += at.evaluations * len(going)
            out.flatten(1)[going[jumping], which] = to
            jumps.flatten(1)[going[jumping], which] += 1
        info = StepInfo.count(x, out, evaluations=evaluated / max(1, len(x)), observed=observed, jumps=jumps)
        return out, info

    def __repr__(self) -> str:
        return "Uniformization()"
