"""Exit rates and destinations of reverse jumps for rank-one noise, in O(S) per site.

Rank-one noise keeps the state of a site with probability alpha, or else draws it anew from a distribution pi. A site in
state x, whose x0 has the posterior p, jumps back to the state v != x at the rate

    h_v = f p(v) + (k_own p(x) + k_other (1 - p(x))) pi_v

    f = beta alpha / (1 - alpha),   k_own = beta (1 - alpha) pi_x / (alpha + (1 - alpha) pi_x),   k_other = beta

with beta the rate at which the noise draws anew. The probability of v in a step of finite length has the same form with
other coefficients, see ``rates.py``. The exit rate is the sum over v,

    sum_v h_v = p(x) k_own (1 - pi_x) + (1 - p(x)) (f + k_other (1 - pi_x)).

It needs p(x) alone. It is a mean of two numbers, so the larger one is a bound that needs no prediction: candidates for
a jump are drawn by the bound, and the denoiser's predictions are used for the candidates only.

``FirstJumpClock`` draws the time of a sample's first jump from one posterior, that at the start of the interval. While
a site stays in x, its own part of the posterior changes in a known way (``with_own_evidence``). The reverse path
stays in x between the noise n and the smaller noise n' with probability

    A(n') = exp(-(1 - pi_x)(n - n')) sum_x0 p(x0) q_n'(x | x0) / q_n(x | x0),

which is the probability that a forward path that is in x at n was in x at n' and did not leave it in between. The noise
n is the integral of beta, alpha is exp(-n), and q_n is the kernel from 0 to n. This too needs p(x) alone. The sites are
independent, so the first jump of a sample is where the product of A over the sites has fallen to a uniform random
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tauleap import _device, _draw
from tauleap._chunks import chunks
from tauleap._precision import full_precision
from tauleap._shapes import PerSample, PerSite, SiteMask, States
from tauleap.denoise import Posterior
from tauleap.noise import RankOneKernel, RankOneProcess
from tauleap.noise.kernel import along_batch, at_own_state
from tauleap.reverse.base import OutgoingJumps

if TYPE_CHECKING:
    from tauleap.reverse.rank_one.rates import Coefficients

_HALVINGS = 50  # of the interval of noise, which make the time exact to float64
_ENTRIES_AT_ONCE = 2**19  # more than by default, since softmax is the only intermediate result
_LARGEST_FRACTION = 0.75  # of sites whose logits are copied; for more, the logits of all sites are used without a copy


class RankOneJumps(OutgoingJumps):
    """Draw jumps by the formula of this module, with the coefficients f, k_own and k_other.

    Args:
        x: The states.
        kernel: q_t|0, for pi.
        posterior: p(x0 | x).
        values: The arguments of ``coefficients`` after pi_x, such as beta and alpha: float64, () or (batch,).
        coefficients: Returns the coefficients, given pi_x and ``values``.
    """

    def __init__(
        self,
        x: States,
        kernel: RankOneKernel,
        posterior: Posterior,
        values: tuple[Tensor, ...],
        coefficients: Callable[..., Coefficients],
    ) -> None:
        self.x, self.posterior, self.law, self.elsewhere = x, posterior, kernel.law, kernel.elsewhere
        self.values, self.coefficients = values, coefficients
        self._candidates: tuple[Tensor, Tensor] | None = None  # their positions, ascending, and their logits

    @cached_property
    @full_precision
    def exit_rate(self) -> PerSite:  # pyright: ignore[reportIncompatibleMethodOverride]
        logits, index = self.posterior.logits, self.x[..., None]
        from_others, from_own = (value.to(logits.dtype).to(self.x.device) for value in self._exit_rates_given_x0)
        if logits.requires_grad:
            probs = logits.softmax(-1)
            own = probs.gather(-1, index).squeeze(-1)
            return from_own * own + from_others * probs.scatter(-1, index, 0.0).sum(-1)
        rates = _mean_over_x0(
            logits.reshape(-1, logits.shape[-1]), self.x.reshape(-1), from_own.reshape(-1), from_others.reshape(-1)
        )
        return rates.view(self.x.shape)

    @property
    def exit_bound(self) -> PerSite:
        return torch.maximum(*self._exit_rates_given_x0).to(self.x.device)

    @full_precision
    def exit_rate_at(self, sites: Tensor) -> Tensor:
        if "exit_rate" in self.__dict__ or len(sites) > _LARGEST_FRACTION * self.x.numel():
            return self.exit_rate.reshape(-1).index_select(0, sites)
        if not len(sites):  # a network need not take an empty batch
            return torch.empty(0, device=sites.device)
        if self._candidates is None:
            self.posterior.prepare(sites)
            self._candidates = sites, self.posterior.at(sites)
        rows = self._logits_at(sites).detach()
        from_others, from_own = (
            value.to(rows.dtype).to(self.x.device).reshape(-1).index_select(0, sites)
            for value in self._exit_rates_given_x0
        )
        return _mean_over_x0(rows, self.x.reshape(-1).index_select(0, sites), from_own, from_others)

    @full_precision
    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        out = torch.empty_like(chosen)
        for part in chunks(len(chosen), self.posterior.shape[-1], chosen.device):
            out[part] = self._draw(chosen[part], generator)
        return out

    def _logits_at(self, sites: Tensor) -> Tensor:
        """Return the logits of some sites; those of candidates are not computed again."""
        if self._candidates is None or not len(self._candidates[0]):
            return self.posterior.at(sites)
        positions, rows = self._candidates
        if positions is sites:
            return rows
        places = torch.searchsorted(positions, sites).clamp_(max=len(positions) - 1)
        if _device.is_host(sites.device) and not torch.equal(positions[places], sites):
            return self.posterior.at(sites)
        return rows.index_select(0, places)

    def _draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        law, sites = self.law, self.x[:1].numel()
        x = self.x.reshape(-1)[chosen].to(law.device)
        if law.ndim > 1:
            law = law.reshape(-1, law.shape[-1])[(chosen % sites).to(law.device)]
        samples = (chosen // sites).to(law.device)
        values = (value[samples] if value.ndim else value for value in self.values)
        pi_x = law[x] if law.ndim == 1 else law.gather(-1, x[:, None]).squeeze(-1)
        f, k_own, k_other, *_ = self.coefficients(pi_x, *values)

        probs = self._logits_at(chosen).to(torch.float64).softmax(-1).to(law.device)
        own = probs.gather(-1, x[:, None]).squeeze(-1)
        probs.scatter_(-1, x[:, None], 0.0)
        on_law = k_other * probs.sum(-1) + k_own * own
        weights = probs.mul_(f[:, None] if f.ndim else f).addcmul_(on_law[:, None], law)
        return _draw.categorical(weights.scatter_(-1, x[:, None], 0.0), generator).to(chosen.device)

    @cached_property
    def _exit_rates_given_x0(self) -> tuple[PerSite, PerSite]:
        """The two numbers whose mean is the exit rate of a site: its exit rate if x0 is not x, and if x0 is x."""
        mass = self.elsewhere  # 1 - pi_x
        if self.law.ndim == 1 and not any(value.ndim for value in self.values):
            f, k_own, k_other, *_ = self.coefficients(self.law, *self.values)
            x = self.x.to(self.law.device)  # the same for all sites in one state
            return (f + k_other * mass)[x], (k_own * mass)[x]
        pi_x = at_own_state(self.law, self.x)
        f, k_own, k_other, *_ = self.coefficients(pi_x, *(along_batch(value, self.x.ndim) for value in self.values))
        mass = at_own_state(mass, self.x)
        return f + k_other * mass, k_own * mass


def _mean_over_x0(rows: Tensor, x: Tensor, if_own: Tensor, if_other: Tensor) -> Tensor:
    """Return the mean of two numbers per site under its posterior: one if x0 is x, and one if it is another state.

    Args:
        rows: Logits (n, S).
        x: The states.
        if_own: The number if x0 is x.
        if_other: The number if x0 is another state.
    """
    out, ones = torch.empty_like(if_own), rows.new_ones(rows.shape[-1])
    for part in chunks(len(rows), rows.shape[-1], rows.device, _ENTRIES_AT_ONCE):
        probs, at = rows[part].softmax(-1), x[part, None]
        own = probs.gather(-1, at).squeeze(-1)
        # Summed without the own state: 1 - p(x) would cancel.
        others = torch.mv(probs.scatter_(-1, at, 0.0), ones)
        out[part] = others.mul_(if_other[part]).addcmul_(own, if_own[part])
    return out


class FirstJumpClock:
    """Draw the time of the first jump, for states x at time t with a posterior, if only the ``free`` sites can jump."""

    def __init__(self, process: RankOneProcess, x: States, t: float, posterior: Posterior, free: SiteMask) -> None:
        self.free, self.schedule, self.base_rate = free, process.schedule, process.base_rate
        self.noise = process.base_rate * float(process.schedule.total(t))
        self.law = at_own_state(process.stationary(), x).to(x.device)
        probs = posterior.probs
        self.own = probs.gather(-1, x[..., None]).squeeze(-1).to(torch.float64)
        self.others = probs.scatter(-1, x[..., None], 0.0).sum(-1).to(torch.float64)

    def draw(self, s: float, generator: torch.Generator | None) -> PerSample:
        """Return the time of each sample's first jump, float64; s if there is none before it."""
        target = torch.log1p(-_draw.uniforms((len(self.law),), self.law.device, generator))
        all_samples = torch.arange(len(target), device=target.device)
        low = torch.full_like(target, self.base_rate * float(self.schedule.total(s)))
        jumps = (self._log_stays(all_samples, low) <= target).nonzero().squeeze(-1)
        low, high, target = low[jumps], torch.full_like(target[jumps], self.noise), target[jumps]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            # The reverse process goes from more noise to less: a jump before ``middle`` is at more noise.
            has_jumped = self._log_stays(jumps, middle) <= target
            low, high = torch.where(has_jumped, middle, low), torch.where(has_jumped, high, middle)
        times = self.schedule.inverse_total(high / self.base_rate).clamp_(min=math.nextafter(s, 1.0))
        return torch.full((len(self.law),), s, dtype=torch.float64, device=times.device).index_copy_(0, jumps, times)

    def _log_stays(self, samples: Tensor, noise: PerSample) -> PerSample:
        """Return for each sample the log-probability that no site jumps before the noise has fallen to ``noise``."""
        noise, law = along_batch(noise, self.law.ndim), self.law[samples]
        start = torch.full_like(noise, self.noise)
        own = _q_xx(noise, law) / _q_xx(start, law)
        others = torch.expm1(-noise) / torch.expm1(-start)
        log_stay = torch.log(self.own[samples] * own + self.others[samples] * others) - (1 - law) * (start - noise)
        # If pi_x = 0 no jump can have led to x, so no reverse jump leaves it.
        return torch.where(self.free[samples] & (law > 0), log_stay, 0.0).flatten(1).sum(1)


def _q_xx(noise: Tensor, law: PerSite) -> PerSite:
    """Return q(x | x)."""
    return torch.exp(-noise) - torch.expm1(-noise) * law
