"""The reverse-rate formula of absorbing noise: logits are needed where a masked site moves or has a loss.

    Rhat(v) = beta alpha / (1 - alpha) p(v)        at a masked site, for every data state v

Elsewhere there are no rates. The exit rate of a masked site does not depend on the prediction, since p is a
distribution over the data states. So a sampler draws the sites that move first, and looks at their predictions alone.
In a step from t to s a masked site leaves the mask with probability (alpha_s - alpha_t) / (1 - alpha_t).

With m a site in the mask, ``Rhat_v = f p(v)`` for every data state v and ``C_v = f 1[v = x0]``, where f depends on the
time alone. Sites that are not masked have no rates. So the divergence of a masked site is

    sum_v Rhat_v - C_v + C_v log(C_v / Rhat_v) = -f log p(x0),

and logits are needed at the masked sites that have a loss, and nowhere else. A step is alike: its f is the probability
to leave the mask, and to stay is equally probable with and without x0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from tauleap import _device, _draw
from tauleap._shapes import PerSample, PerSite, PerState, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.denoise.lazy import Mapped
from tauleap.noise import ForwardProcess, Kernel
from tauleap.noise.kernel import along_batch
from tauleap.noise.schedule import times_on
from tauleap.reverse.base import OutgoingJumps, PosteriorExpectation, RateComparison, Reversal, Structure
from tauleap.reverse.bound import ExitBound

_SMALLEST = 2.0**-54
"""Below every uniform draw but 0, which are multiples of 2**-53."""


@dataclass(eq=False)
class AbsorbingStructure(Structure):
    """Implement the formula for processes that declare a mask.

    Args:
        process: The noise.
        general: The formula by the structure of its kernels, for results with one number per state.
    """

    process: ForwardProcess
    general: Structure

    knows_first_jump = True
    draws_sites_first = True

    @property
    def mixes(self) -> bool:
        return self.general.mixes

    def at(self, x: States, t: Time, kernel: Kernel | None = None) -> AbsorbingReversal:
        return AbsorbingReversal(self.process, self.general.at(x, t, kernel), x, t)

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
        return self.general.exit_bound(low, high)

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
        return AbsorbingExpectation(self._general.rates(), self._sites, self._exit_rate)

    def step(self, s: Time) -> PosteriorExpectation:
        return AbsorbingExpectation(self._general.step(s), self._sites, partial(self._step_probability, s))

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


class AbsorbingExpectation(PosteriorExpectation):
    """Implement reverse rates, or probabilities of a step, as a function of a posterior over the data states.

    Args:
        general: The same as a function of any posterior.
        sites: The masked sites.
        leaving: Returns f, the rate or probability to leave the state, float64 and 0 at sites that are not masked.
    """

    def __init__(self, general: PosteriorExpectation, sites: MaskedSites, leaving: Callable[[], PerSite]) -> None:
        self.x, self._general, self._sites, self._make_leaving = general.x, general, sites, leaving

    @cached_property
    def _leaving(self) -> PerSite:
        return self._make_leaving()

    def under(self, posterior: Posterior) -> PerState:
        return self._general.under(posterior)

    def given(self, x0: States, dtype: torch.dtype) -> PerState:
        return self._general.given(x0, dtype)

    def given_among(self, x0: States, leaving: Tensor, total: Tensor) -> PerSite:
        leaving = leaving.reshape(len(leaving), *(1,) * (x0.ndim + 1 - leaving.ndim), *leaving.shape[1:])
        leaving = leaving.expand(*x0.shape, -1)
        of_x, of_x0 = (leaving.gather(-1, states[..., None]).squeeze(-1) for states in (self.x, x0))
        divisor = of_x0 + (along_batch(total, x0.ndim) - of_x).clamp(min=0.0)
        known = self._leaving.to(divisor.dtype).to(divisor.device)
        return torch.where(known > 0, known / divisor, 0.0)

    def divergence(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        sites = self._sites.positions(scored)
        log_prob, leaving = self._at(x0, posterior, sites)
        return self._sites.spread(-leaving * log_prob, sites)

    def compare(
        self,
        x0: States,
        posterior: Posterior,
        *,
        weight: Tensor | None = None,
        total: bool = True,
        scored: SiteMask | None = None,
    ) -> RateComparison:
        sites = self._sites.positions(scored)
        log_prob, leaving = self._at(x0, posterior, sites)
        signals = torch.where(leaving == 0, 0.0, torch.xlogy(leaving, leaving) + leaving * log_prob)
        signal = self._sites.spread(signals, sites)
        outflow = self._sites.spread(leaving, sites)
        if weight is None:
            weighted = signal
        else:
            weighted = along_batch(_device.moved_to(weight, signal.device, signal.dtype), x0.ndim) * signal
        return RateComparison(outflow - weighted if total else -weighted, outflow, signal.detach())

    def _at(self, x0: States, posterior: Posterior, sites: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(x0 | x) and f at some sites."""
        log_prob = posterior.log_prob(x0.reshape(-1).index_select(0, sites), sites)
        leaving = _device.moved_to(self._leaving, log_prob.device, log_prob.dtype)
        return log_prob, leaving.expand(x0.shape).reshape(-1).index_select(0, sites)


class AbsorbingJumps(OutgoingJumps):
    """Draw jumps of masked sites.

    Args:
        x: The states.
        leaving: The rate or probability to leave the mask, float64 and 0 at sites that are not masked.
        posterior: p(x0 | x) over the data states.
    """

    def __init__(self, x: States, leaving: PerSite, posterior: Posterior) -> None:
        self.x, self._leaving, self._posterior = x, leaving, posterior

    @cached_property
    def exit_rate(self) -> PerSite:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not torch.is_grad_enabled():
            return self._leaving
        # A sum of no logits is 0 and has their graph: the rate depends on them only in that its gradient is 0.
        nothing = self._posterior.at(torch.empty(0, dtype=torch.int64, device=self.x.device)).sum()
        return self._leaving.to(nothing.dtype) + nothing

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        if not len(chosen):
            return chosen.clone()
        return self._posterior.sample(chosen, generator=generator)


class MaskedSites:
    """Find the masked sites of a batch.

    Args:
        x: The states.
        mask: The state that is the mask.
    """

    def __init__(self, x: States, mask: int) -> None:
        self.mask: SiteMask = x == mask
        self._found: tuple[SiteMask | None, Tensor] | None = None

    def positions(self, scored: SiteMask | None = None) -> Tensor:
        """Return the positions of the masked sites in ``x.flatten()``, int64 (n,). The host waits for their number.

        Args:
            scored: Sites to which they are limited. Default: all. The last answer is kept, for several losses of one
                batch.
        """
        if self._found is None or self._found[0] is not scored:
            chosen = self.mask if scored is None else self.mask & scored
            self._found = scored, chosen.reshape(-1).nonzero().squeeze(-1)
        return self._found[1]

    def spread(self, values: Tensor, sites: Tensor) -> PerSite:
        """Return the values of some sites as one number per site, 0 elsewhere.

        Args:
            values: One number per entry of ``sites``.
            sites: Positions.
        """
        out = torch.zeros(self.mask.numel(), dtype=values.dtype, device=values.device)
        return out.index_copy(0, sites, values).view(self.mask.shape)
