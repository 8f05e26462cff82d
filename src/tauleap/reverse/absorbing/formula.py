"""The reverse-rate formula of absorbing noise: logits are needed where a masked site moves or has a loss.

    Rhat(v) = beta alpha / (1 - alpha) p(v)        at a masked site, for every data state v

Elsewhere there are no rates. The exit rate of a masked site does not depend on the prediction, since p is a
distribution over the data states. So a sampler draws the sites that move first, and looks at their predictions alone.
In a step from t to s a masked site leaves the mask with probability (alpha_s - alpha_t) / (1 - alpha_t).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _device, _draw
from tauleap._shapes import PerSample, PerSite, PerState, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.denoise.lazy import Mapped
from tauleap.noise import ForwardProcess, Kernel
from tauleap.noise.kernel import along_batch
from tauleap.noise.schedule import times_on
from tauleap.reverse.absorbing.expectation import AbsorbingExpectation
from tauleap.reverse.absorbing.jumps import AbsorbingJumps
from tauleap.reverse.absorbing.masked_sites import MaskedSites
from tauleap.reverse.base import OutgoingJumps, PosteriorExpectation, Reversal, Structure
from tauleap.reverse.bound import ExitBound

_SMALLEST = 2.0**-54
"""Below every uniform draw but 0, which are multiples of 2**-53."""


class AbsorbingStructure(Structure):
    """Implement the formula for processes that declare a mask.

    Args:
        process: The noise.
        general: The formula by the structure of its kernels, for results with one number per state.
    """

    def __init__(self, process: ForwardProcess, general: Structure) -> None:
        self.process, self._general = process, general

    knows_first_jump = True
    draws_sites_first = True

    @property
    def mixes(self) -> bool:
        return self._general.mixes

    def at(self, x: States, t: Time, kernel: Kernel | None = None) -> AbsorbingReversal:
        return AbsorbingReversal(self.process, self._general.at(x, t, kernel), x, t)

    def with_own_evidence(self, posterior: Posterior, x: States, t: Time, y: States, s: Time) -> Posterior:
        """Return the same prediction at masked sites: the mask has the same probability from every data state.

        Any other state y is its x0, unless the posterior excludes it.
        """
        mask, own = self.process.mask, y.reshape(-1)

        def certain(rows: Tensor, sites: Tensor | None) -> Tensor:
            states = own if sites is None else own.index_select(0, sites)
            possible = rows.gather(-1, states[:, None]).squeeze(-1) > -torch.inf
            others = torch.arange(rows.shape[-1], device=rows.device) != states[:, None]
            return rows.masked_fill(((states != mask) & possible)[:, None] & others, -torch.inf)

        return Posterior(Mapped(posterior.parametrisation, certain), over_data_states=posterior.over_data_states)

    def exit_bound(self, low: float, high: float) -> ExitBound:
        return self._general.exit_bound(low, high)

    def first_jump(
        self, x: States, t: float, s: float, posterior: Posterior, free: SiteMask, generator: torch.Generator | None
    ) -> PerSample:
        """Return the time of the first jump: of m masked sites, when 1 - alpha has fallen by the factor u^(1/m)."""
        schedule = self.process.schedule
        number = (free & (x == self.process.mask)).flatten(1).sum(1)
        masked = -torch.expm1(-_device.moved_to(schedule.total(t), x.device))
        drawn = _draw.uniforms((len(x),), x.device, generator).clamp_(min=_SMALLEST)
        left = masked * drawn ** (1 / number.to(torch.float64))  # for m = 0 the exponent is infinite, and the time is 0
        return schedule.inverse_total(-torch.log1p(-left)).clamp(s, t)


class AbsorbingReversal(Reversal):
    """Implement the formula at given states and times.

    Args:
        process: The noise.
        general: The formula by the structure of the kernels.
        x: The states.
        t: The time, one for all samples or one per sample.
    """

    def __init__(self, process: ForwardProcess, general: Reversal, x: States, t: Time) -> None:
        self.process, self.x, self.t, self._general = process, x, t, general
        self._sites = MaskedSites(x, -1 if process.mask is None else process.mask)

    def reachable(self) -> Tensor | None:
        return self._general.reachable()

    def ratios(self, posterior: Posterior) -> PerState:
        return self._general.ratios(posterior)

    def rates(self) -> PosteriorExpectation:
        return AbsorbingExpectation(self._general.rates(), self._sites, self._exit_rate())

    def step(self, s: Time) -> PosteriorExpectation:
        return AbsorbingExpectation(self._general.step(s), self._sites, self._step_probability(s))

    def jumps(self, posterior: Posterior) -> OutgoingJumps:
        return AbsorbingJumps(self.x, self._exit_rate(), posterior)

    def step_jumps(self, s: Time, posterior: Posterior) -> OutgoingJumps:
        return AbsorbingJumps(self.x, self._step_probability(s), posterior)

    def log_prob(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        sites = self._sites.positions(scored)
        values = posterior.log_prob(x0.reshape(-1).index_select(0, sites), sites)
        # A site that is not masked is its x0.
        wrong = ~self._sites.mask & (x0 != self.x)
        return self._sites.spread(values, sites).masked_fill(wrong, -torch.inf)

    def _exit_rate(self) -> PerSite:
        """Return beta alpha / (1 - alpha) at the masked sites, and 0 elsewhere; float64."""
        time = times_on(self.x.device, self.t)
        noise = self.process.schedule.total(time)
        rate = self.process.schedule.rate(time) / torch.expm1(noise)
        return self._masked_only(torch.where(noise > 0, rate, 0.0))

    def _step_probability(self, s: Time) -> PerSite:
        """Return the probability that a site leaves the mask in a step to s, and 0 at other sites; float64."""
        total = self.process.schedule.total
        noise, left = total(times_on(self.x.device, self.t)), total(times_on(self.x.device, s))
        probability = torch.exp(-left) * torch.expm1(left - noise) / torch.expm1(-noise)
        return self._masked_only(torch.where(noise > 0, probability, 0.0))

    def _masked_only(self, value: Tensor) -> PerSite:
        value = along_batch(_device.moved_to(value, self.x.device), self.x.ndim)
        return torch.where(self._sites.mask, value, 0.0)
