"""The modified next reaction method: one jump at a time, at times that integrate the rates."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _check, _draw
from tauleap._shapes import States
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.reverse.base import checked_exit_rate
from tauleap.sampling.sampler import Sampler, StepInfo, select_samples


class NextReaction(Sampler):
    """Simulation jump by jump (Anderson 2007; the paper's exact simulation, Appendix F.1 and H.1).

    Every site has a clock that runs at its exit rate and fires when it has run an exponential time of mean 1; the site
    that fires first jumps, its clock is set anew, and the others go on with what was left. The rates' change in time is
    integrated with steps of length ``step``, for all samples at the same times: within such a step the rates are those
    of its middle, and follow the states as they jump. (The paper's Euler rule takes them at its beginning, which costs
    as much and leaves an error of order 1 in ``step`` instead of 2.)

    One evaluation for every step of the rule and one for every jump, whatever the grid: the points of the grid only say
    where the run can be looked at. For exact simulation without such a rule see ``Uniformization``.
    """

    order = math.inf

    def __init__(self, step: float = 0.001) -> None:
        self.step_size = _check.positive("step", step)

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
        out = x.clone()
        clocks = _exponential(x.shape, x.device, generator)  # what is left until each site fires
        jumps = torch.zeros_like(x)
        number = max(1, math.ceil((t - s) / self.step_size - 1e-9))
        length = (t - s) / number
        evaluated = 0
        for i in range(number):
            middle = t - (i + 0.5) * length
            left = torch.full((len(x),), length, dtype=torch.float64, device=x.device)
            going = torch.arange(len(x), device=x.device)
            while len(going):
                here = out[going]
                here_observed, here_condition = select_samples(observed, condition, going)
                outgoing = reverse.at(here, middle, observed=here_observed, condition=here_condition).checked().jumps
                exits = checked_exit_rate(outgoing)
                evaluated += len(going)
                rates, clock = exits.flatten(1).to(torch.float64), clocks[going].flatten(1)
                wait, site = torch.where(rates > 0, clock / rates, torch.inf).min(1)
                fires = wait < left[going]
                elapsed = torch.minimum(wait, left[going])
                clock = clock - torch.where(rates > 0, rates * elapsed[:, None], 0.0)
                rows = fires.nonzero().squeeze(-1)
                sites = site[rows]
                clock[rows, sites] = _exponential(rows.shape, x.device, generator)
                clocks[going] = clock.reshape(here.shape)
                to = outgoing.draw(rows * rates.shape[1] + sites, generator)
                left[going] -= elapsed
                going = going[rows]
                out.flatten(1)[going, sites] = to
                jumps.flatten(1)[going, sites] += 1
        info = StepInfo.count(x, out, evaluations=evaluated / max(1, len(x)), observed=observed, jumps=jumps)
        return out, info

    def __repr__(self) -> str:
        return f"NextReaction(step={self.step_size:g})"


def _exponential(shape: torch.Size, device: torch.device, generator: torch.Generator | None) -> Tensor:
    return -torch.log1p(-_draw.uniforms(shape, device, generator))
