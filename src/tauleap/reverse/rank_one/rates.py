"""Reverse rates and steps for ``q = alpha I + (1 - alpha) 1 pi^T``, in O(S) per site: no matrix is made.

    Rhat(v) = beta [ alpha / (1 - alpha) p(v) + (1 - p(x) + p(x) kappa) pi_v ]        v != x
    kappa   = (1 - alpha) pi_x / q(x | x),        q(x | x) = alpha + (1 - alpha) pi_x

with beta the schedule's rate times the base rate of the process. The ratios are these without beta, divided by pi_x.

Rates to a state v and probabilities of a step to v are a multiple of p plus a multiple of pi,

    h_v = f p(v) + (k_own p(x) + k_other (1 - p(x))) pi_v       v != x
    h_x =           e_own p(x) + e_other (1 - p(x))

and depend on a site through pi_x only. If pi_x = 0, or before any noise, x can only come from x0 = x, and f and k
are 0. ``rate_coefficients`` and ``step_coefficients`` derive them, for the loss and the destinations too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._precision import full_precision
from tauleap._shapes import PerSample, PerSite, PerState, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.noise import Kernel, RankOneKernel, RankOneProcess
from tauleap.noise.kernel import along_batch
from tauleap.noise.schedule import times_on
from tauleap.reverse.base import ExpectationOfLogits, OutgoingJumps, Reversal, Structure, replaced_logits
from tauleap.reverse.bound import RankOneBound
from tauleap.reverse.rank_one.destinations import FirstJumpClock, RankOneJumps
from tauleap.reverse.rank_one.loss import rank_one_loss

_SMALLEST_LAW = 1e-36  # from here on float32 has normal numbers for a probability and for its inverse
_SMALLEST_FACTOR = 1e-30  # a factor of pi below it, times a probability, is too small for float32
_LARGEST_RATIO = 1e36  # of h / c: float32 ends at 3e38, and sums of such ratios are weighted by pi
_LARGEST_IN_FLOAT32 = 1e30  # a larger factor times a small probability needs float64


class Coefficients(NamedTuple):
    """Hold the coefficients in float64, () or with axes that broadcast with x."""

    f: Tensor
    k_own: Tensor
    k_other: Tensor
    e_own: Tensor | None = None
    e_other: Tensor | None = None


def rate_coefficients(pi_x: Tensor, beta: Tensor, alpha: Tensor, one_minus_alpha: Tensor) -> Coefficients:
    """Return the coefficients of the reverse rates, for which h_x is 0.

        f = beta alpha / (1 - alpha),        k_own = beta (1 - alpha) pi_x / q(x | x),        k_other = beta

    Args:
        pi_x: the stationary probability of each site's state.
        beta: the schedule's rate times the base rate of the process.
        alpha: the probability that a site has not been redrawn.
        one_minus_alpha: its complement, computed without cancellation.
    """
    q_x_elsewhere = one_minus_alpha * pi_x
    kappa = q_x_elsewhere / (alpha + q_x_elsewhere)
    return _zero_if_known(q_x_elsewhere, beta * (alpha / one_minus_alpha), beta * kappa, beta)


def step_coefficients(
    pi_x: Tensor,
    a: Tensor,
    one_minus_a: Tensor,
    b: Tensor,
    one_minus_b: Tensor,
    alpha: Tensor,
    one_minus_alpha: Tensor,
    *,
    staying: bool = True,
) -> Coefficients:
    """Return the coefficients of a step from t to s.

        f       = (1 - b) a / (1 - alpha)
        k_own   = (1 - b) (1 - a) pi_x / q(x | x)          e_own   = q_t|s(x | x) (a + (1 - a) pi_x) / q(x | x)
        k_other = (1 - b) (1 - a) / (1 - alpha)            e_other = q_t|s(x | x) (1 - a) / (1 - alpha)

    Args:
        pi_x: the stationary probability of each site's state.
        a: the alpha of q_s|0.
        one_minus_a: its complement.
        b: the alpha of q_t|s.
        one_minus_b: its complement.
        alpha: that of q_t|0, which is a b.
        one_minus_alpha: its complement.
        staying: whether to return e_own and e_other, which jumps do not need. Default: true.
    """
    q_xx = alpha + one_minus_alpha * pi_x
    q_xx = torch.where(q_xx == 0, 1.0, q_xx)  # x has probability 0: any number will do
    inverse = torch.where(one_minus_alpha == 0, 0.0, 1 / one_minus_alpha)
    m_own, m_other = one_minus_a * pi_x / q_xx, one_minus_a * inverse
    moving = _zero_if_known(
        one_minus_alpha * pi_x, one_minus_b * a * inverse, one_minus_b * m_own, one_minus_b * m_other
    )
    if not staying:
        return moving
    stays = b + one_minus_b * pi_x
    return moving._replace(e_own=stays * (a / q_xx + m_own), e_other=stays * m_other)


jump_coefficients = partial(step_coefficients, staying=False)


def _zero_if_known(q_x_elsewhere: Tensor, f: Tensor, k_own: Tensor, k_other: Tensor) -> Coefficients:
    """Return f and k, set to 0 where x0 must be x; the given values may be NaN there."""
    known = q_x_elsewhere == 0
    if _device.is_host(known.device) and not bool(known.any()):
        return Coefficients(f, k_own, k_other)
    return Coefficients(*(torch.where(known, 0.0, value) for value in (f, k_own, k_other)))


@dataclass(eq=False)
class RankOneStructure(Structure):
    """Define the formula for rank-one kernels, whose sites may have different stationary distributions."""

    process: RankOneProcess

    knows_first_jump = True
    draws_sites_first = True
    draws_candidates = True

    @property
    def mixes(self) -> bool:
        return bool(((self.process.stationary() > 0) | ~self.process.data_states).all())

    def at(self, x: States, t: Time, kernel: Kernel | None = None) -> RankOneReversal:
        schedule, time = self.process.schedule, times_on(x.device, t)
        q_t0 = self.process.kernel_after(schedule.total(time))  # nothing is cached, and O(1) per sample
        return RankOneReversal(self.process, x, t, self.process.base_rate * schedule.rate(time), q_t0)

    def with_own_evidence(self, posterior: Posterior, x: States, t: Time, y: States, s: Time) -> Posterior:
        logits = _add_evidence(posterior.logits, x, self.process.kernel(t), -1.0)
        return replaced_logits(posterior, _add_evidence(logits, y, self.process.kernel(s), 1.0))

    def exit_bound(self, low: float, high: float) -> RankOneBound:
        return RankOneBound(self.process)

    def first_jump(
        self, x: States, t: float, s: float, posterior: Posterior, free: SiteMask, generator: torch.Generator | None
    ) -> PerSample:
        return FirstJumpClock(self.process, x, t, posterior, free).draw(s, generator)


class RankOneReversal(Reversal):
    """Evaluate the formula at states x and time t, with ``q_t0`` the kernel from 0 to t."""

    def __init__(self, process: RankOneProcess, x: States, t: Time, beta: Tensor, q_t0: RankOneKernel) -> None:
        self.process, self.x, self.t, self.beta, self.q_t0 = process, x, t, beta, q_t0

    @cached_property
    def pi_x(self) -> Tensor:
        return self.q_t0.law_at(self.x)

    @cached_property
    def x0_is_x(self) -> SiteMask:
        """Where x cannot have been reached by a jump, so that x0 is x."""
        return (self._along(self.q_t0.one_minus_alpha) * self.pi_x == 0).to(self.x.device)

    @cached_property
    def any_known(self) -> bool:
        """Whether a site may be ``x0_is_x``; True if the host would have to wait for the answer."""
        one_minus_alpha = self.q_t0.one_minus_alpha
        if _device.is_host(one_minus_alpha.device) and self.q_t0.facts.least > 0 and bool((one_minus_alpha > 0).all()):
            return False
        return not _device.is_host(self.x0_is_x.device) or bool(self.x0_is_x.any())

    def reachable(self) -> Tensor | None:
        if not self.any_known:
            return None
        own = torch.arange(self.q_t0.law.shape[-1], device=self.x.device) == self.x[..., None]
        return own | ~self.x0_is_x[..., None]

    def log_prob(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        return posterior.given_reachable(self.reachable()).log_prob(x0)

    def ratios(self, posterior: Posterior) -> PerState:
        alpha, one_minus_alpha = self._along(self.q_t0.alpha), self._along(self.q_t0.one_minus_alpha)
        q_xx = alpha + one_minus_alpha * self.pi_x
        inverse = torch.where(self.pi_x > 0, 1 / self.pi_x, 0.0)
        odds = torch.where(one_minus_alpha == 0, 0.0, alpha / one_minus_alpha)
        # k_own is that of rates over beta pi_x; unlike that quotient it is defined for pi_x = 0.
        k_own = one_minus_alpha / torch.where(q_xx == 0, 1.0, q_xx)
        coefficients = Coefficients(odds * inverse, k_own, inverse)
        logits = posterior.logits
        if inverse.numel() and float(coefficients.f.max()) > _LARGEST_IN_FLOAT32:
            posterior = Posterior(logits.to(torch.float64))
        ratios = self._expectation(coefficients, lambda: k_own).under(posterior)
        return ratios.to(logits.dtype).scatter(-1, self.x[..., None], 1.0)

    def rates(self) -> RankOneExpectation:
        values = [self._along(value) for value in self._rate_values()]
        return self._expectation(
            rate_coefficients(self.pi_x, *values), lambda: rate_coefficients(self._least_law(), *values).k_own
        )

    def step(self, s: Time) -> RankOneExpectation:
        values = [self._along(value) for value in self._step_values(s)]
        return self._expectation(
            step_coefficients(self.pi_x, *values), lambda: jump_coefficients(self._least_law(), *values).k_own
        )

    def jumps(self, posterior: Posterior) -> OutgoingJumps:
        return RankOneJumps(self.x, self.q_t0, posterior, self._rate_values(), rate_coefficients)

    def step_jumps(self, s: Time, posterior: Posterior) -> OutgoingJumps:
        return RankOneJumps(self.x, self.q_t0, posterior, self._step_values(s), jump_coefficients)

    def _rate_values(self) -> tuple[Tensor, ...]:
        """Return beta, alpha and 1 - alpha."""
        return self.beta, self.q_t0.alpha, self.q_t0.one_minus_alpha

    def _step_values(self, s: Time) -> tuple[Tensor, ...]:
        """Return a, 1 - a, b, 1 - b, alpha and 1 - alpha."""
        kernels = self.process.kernel(s), self.process.kernel(self.t, s), self.q_t0
        return tuple(value for kernel in kernels for value in (kernel.alpha, kernel.one_minus_alpha))

    def _expectation(self, coefficients: Coefficients, least_own: Callable[[], Tensor]) -> RankOneExpectation:
        return RankOneExpectation(self.x, self.q_t0, self.x0_is_x, self.any_known, coefficients, least_own)

    def _along(self, value: Tensor) -> Tensor:
        return along_batch(value, self.x.ndim)

    def _least_law(self) -> Tensor:
        """Return the smallest positive pi_x of all, which bounds k_own from below."""
        law = self.q_t0.law
        return torch.full((), self.q_t0.facts.least_positive, dtype=law.dtype, device=law.device)


class RankOneExpectation(ExpectationOfLogits):
    """Evaluate h by its coefficients (see :class:`Coefficients`).

    Args:
        x: states.
        kernel: q_t|0, for its stationary distribution.
        x0_is_x: sites for which x0 must be x.
        any_known: False only if there is no such site.
        coefficients: float64.
        least_own: returns a lower bound of the positive entries of ``coefficients.k_own``, which only losses need.
    """

    def __init__(
        self,
        x: States,
        kernel: RankOneKernel,
        x0_is_x: SiteMask,
        any_known: bool,
        coefficients: Coefficients,
        least_own: Callable[[], Tensor],
    ) -> None:
        self.x, self.law, self.facts, self.x0_is_x, self.any_known = x, kernel.law, kernel.facts, x0_is_x, any_known
        self.coefficients, self.least_own = coefficients, least_own

    @full_precision
    def under(self, posterior: Posterior) -> PerState:
        probs, index = posterior.probs, self.x[..., None]
        own = probs.gather(-1, index).squeeze(-1)
        in_place = not probs.requires_grad
        # Summed without the own state: 1 - p(x) would cancel.
        probs = probs.scatter_(-1, index, 0.0) if in_place else probs.scatter(-1, index, 0.0)
        others = probs.sum(-1)
        f, k_own, k_other, e_own, e_other = self._cast(probs.dtype)
        if self.any_known:
            own, others = own.masked_fill(self.x0_is_x, 1.0), others.masked_fill(self.x0_is_x, 0.0)
            f = f.masked_fill(self.x0_is_x, 0.0)
        law, on_law = self._as(self.law, probs.dtype), (own * k_own + others * k_other)[..., None]
        f = f[..., None] if f.ndim else f
        out = probs.mul_(f).addcmul_(on_law, law) if in_place else torch.addcmul(probs * f, on_law, law)
        if e_own is None or e_other is None:
            return out.scatter_(-1, index, 0.0)
        return out.scatter_(-1, index, (own * e_own + others * e_other)[..., None])

    def given(self, x0: States, dtype: torch.dtype) -> PerState:
        f, k_own, k_other, e_own, e_other = self._cast(dtype)
        differs = (x0 != self.x) & ~self.x0_is_x
        out = torch.where(differs, k_other, k_own)[..., None] * self._as(self.law, dtype)
        out.scatter_add_(-1, x0[..., None], torch.where(differs, f, 0.0)[..., None])
        if e_own is None or e_other is None:
            return out.scatter_(-1, self.x[..., None], 0.0)
        return out.scatter_(-1, self.x[..., None], torch.where(differs, e_other, e_own)[..., None])

    def sites_beyond_float32(self, x0: States) -> Tensor | None:
        """Return for which sites, (sites,), the loss needs float64; None if for none.

        ``h / c`` is at most ``max(f / min pi, k) / c_law`` (see ``loss``). It is out of the range of float32 if x is
        rare and x0 is x, as c is then nearly 0, or if other states are very rare.
        """
        f, own, others, *_ = self.coefficients
        if not x0.numel():
            return None
        smallest = self.facts.least_positive
        if smallest < _SMALLEST_LAW:
            return torch.ones(x0.numel(), dtype=torch.bool, device=x0.device)
        # First a bound for all sites together, which nearly always suffices.
        largest, least = _extremes(f.max() / smallest, others, self.least_own())
        if least >= _SMALLEST_FACTOR and largest <= _LARGEST_RATIO * least:
            return None
        differs = ((x0 != self.x) & ~self.x0_is_x).to(own.device)
        c_law = torch.where(differs, others, own)
        beyond = (torch.maximum(f / smallest, others) > _LARGEST_RATIO * c_law) & (c_law > 0)
        beyond = beyond | ((own > 0) & (own < _SMALLEST_FACTOR))
        return beyond.expand(x0.shape).reshape(-1).to(x0.device) if bool(beyond.any()) else None

    _loss = rank_one_loss

    def _cast(self, dtype: torch.dtype) -> Coefficients:
        return Coefficients(*(None if value is None else self._as(value, dtype) for value in self.coefficients))  # pyright: ignore

    def _as(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        return _device.moved_to(value, self.x.device, dtype)


def _extremes(largest: Tensor, others: Tensor, own: Tensor) -> tuple[float, float]:
    """Return the largest number of all and the smallest positive factor of pi; the host waits at most once."""
    positive = [torch.where(values > 0, values, torch.inf).min() for values in (own, others)]
    numbers = [largest, others.max(), *positive]
    device = next((number.device for number in numbers if not _device.is_host(number.device)), _device.CPU)
    first, second, *least = torch.stack([_device.moved_to(number, device) for number in numbers]).tolist()
    return max(first, second), min(least)


def _add_evidence(logits: PerState, x: States, kernel: RankOneKernel, sign: float) -> PerState:
    """Return logits plus ``sign log q(x | .)``, up to a constant: only at x0 = x does it differ between the x0."""
    q_x_elsewhere = along_batch(kernel.one_minus_alpha, x.ndim) * kernel.law_at(x)
    known = q_x_elsewhere == 0  # x0 is x
    extra = torch.log1p(along_batch(kernel.alpha, x.ndim) / torch.where(known, 1.0, q_x_elsewhere))
    extra = _device.moved_to(torch.where(known, 0.0, sign * extra), logits.device, logits.dtype)
    out = logits.scatter_add(-1, x[..., None], extra[..., None])
    if sign > 0 and (not _device.is_host(known.device) or bool(known.any())):
        own = torch.arange(logits.shape[-1], device=x.device) == x[..., None]
        out = out.masked_fill(known.to(x.device)[..., None] & ~own, -torch.inf)
    return out
