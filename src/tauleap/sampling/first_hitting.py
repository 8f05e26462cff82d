"""First hitting: masked sites are filled one at a time, at times known in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import States
from tauleap.noise import ForwardProcess
from tauleap.noise.absorbing import mask_of
from tauleap.observed import Observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.sampling.sampler import Sampler, StepInfo

_SMALLEST = 2.0**-54
"""Below every uniform draw but 0, which are multiples of 2**-53."""
_EARLIEST = 1e-9
"""Earliest time at which the denoiser is evaluated."""


class FirstHitting(Sampler):
    """Fill masked sites one at a time, at times known in closed form: exact for absorbing noise (Zheng et al. 2024).

    A masked site is filled at the rate ``-alpha' / (1 - alpha)``, whatever the denoiser predicts. Of m masked sites the
    next is therefore filled when ``1 - alpha`` has fallen by the factor ``u^(1/m)``, u uniform; it is any of them with
    equal probability, and its state is drawn from p(x0 | x). One network evaluation per filled site: with D sites at
    most D, however fine the grid. Every sample has its own clock.

    >>> FirstHitting()
    FirstHitting()
    """

    order = math.inf

    def check(self, process: ForwardProcess) -> None:
        _mask_of(process)

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
        schedule, mask = reverse.process.schedule, _mask_of(reverse.process)
        out = x.clone()
        free = torch.ones_like(x, dtype=torch.bool) if observed is None else ~observed.mask
        one_minus_alpha = float(-torch.expm1(-schedule.total(t)))
        end = float(-torch.expm1(-schedule.total(s)))
        # The times of all sites are drawn at once, so that the host waits once per step for how many there are.
        number = (free & (out == mask)).flatten(1).sum(1, keepdim=True)
        before = torch.arange(x[:1].numel(), device=x.device)  # sites that are filled earlier
        # For m = 0 the exponent is infinite, and the next time comes out as never. A draw of 0 would leave a site
        # masked for ever.
        drawn = _draw.uniforms((len(x), len(before)), x.device, generator).clamp(min=_SMALLEST)
        one_minus_alpha = one_minus_alpha * (drawn ** (1 / (number - before).clamp(min=0).to(torch.float64))).cumprod(1)
        filled = one_minus_alpha > end
        order, evaluated = filled.sum(1).argsort(descending=True, stable=True), 0
        for number_filled, active in enumerate(order[:count] for count in filled.sum(0).tolist() if count):
            x_active = out[active]
            masked = (free[active] & (x_active == mask)).flatten(1)
            active_observed, active_condition = select_rows(observed, condition, active)
            # The posterior of masked sites does not depend on the time, and at time 0 there is none.
            times = schedule.inverse_total(-torch.log1p(-one_minus_alpha[active, number_filled])).clamp(
                max(s, min(_EARLIEST, t)), t
            )
            at = reverse.at(
                x_active, times, observed=active_observed, condition=active_condition, checked=True
            ).deferred()
            evaluated += len(active)
            sites = _draw.categorical(masked, generator)
            rows = torch.arange(len(active), device=x.device)
            chosen = rows * masked.shape[1] + sites
            out.flatten(1)[active, sites] = at.posterior.sample(chosen, generator=generator)
        return out, StepInfo.count(x, out, evaluations=evaluated / max(1, len(x)), observed=observed)

    def __repr__(self) -> str:
        return "FirstHitting()"


def _mask_of(process: ForwardProcess) -> int:
    remedy = f"for exact simulation of {type(process).__name__} write Uniformization() or NextReaction()"
    return mask_of(process, "FirstHitting() is for Absorbing noise, where a site jumps once", remedy)
