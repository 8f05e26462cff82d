"""The modified next reaction method: one jump at a time, at times that integrate the rates."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _check, _draw
from tauleap._shapes import States
from tauleap.observed import Observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.reverse.base import check_rates
from tauleap.sampling.sampler import Sampler, StepInfo


class NextReaction(Sampler):
    """Simulate the reverse chain jump by jump with integrated rates (Anderson 2007; Appendix F.1 and H.1 of the paper).

    Every site has a clock that runs at its exit rate and fires after an exponential time of mean 1; the site that fires
    first jumps and its clock is reset, and the other clocks continue. The change of the rates in time is integrated
    with steps of length ``step``, at the same times for all samples: within such a step the rates are those of its
    middle, and follow the states as they jump. (The paper's Euler rule uses the rates at the beginning, which costs as
    much and has an error of order 1 in ``step`` instead of 2.)

    One network evaluation per step of the rule and one per jump, whatever the grid: the points of the grid only
    determine where the run can be observed. For exact simulation without such a rule see ``Uniformization``.

    Args:
        step: The length of a step of the integration rule, in time, > 0. Default: 0.001.

    Raises:
        ValueError: ``step`` is not a positive number.

    >>> NextReaction(step=0.01)
    NextReaction(step=0.01)
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
                here_observed, here_condition = select_rows(observed, condition, going)
                at = reverse.at(here, middle, observed=here_observed, condition=here_condition, checked=True)
                outgoing = at.deferred().jumps
                exits = check_rates(outgoing.exit_rate)
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
                evaluated += at.evaluations * len(going)
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
