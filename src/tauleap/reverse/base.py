"""What every structure of kernels must provide: reverse rates, steps and losses that are linear in p(x0 | x).

A quantity of the reverse process is an expectation over the posterior of what it would be if x0 were known,

    h_v = sum_x0 p(x0 | x) c_v(x0).

Reverse rates are one, with ``c_v(x0) = R_t(v, x) q(v | x0) / q(x | x0)`` and 0 at x itself; the probabilities of a step
to an earlier time are another. A loss compares h with c at the true x0:

    sum_v h_v - c_v + c_v log(c_v / h_v)  >=  0,        and 0 only where h = c

For rates it is the relative entropy of two jump processes, for probabilities the Kullback-Leibler divergence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap import _check, _device, _draw
from tauleap._precision import full_precision
from tauleap._shapes import PerSample, PerSite, PerState, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.noise import ForwardProcess, Kernel
from tauleap.noise.kernel import along_batch
from tauleap.observed import Observed
from tauleap.reverse.bound import ExitBound


class Structure(ABC):
    """Define the reverse-rate formula for one process, by the structure of its kernels."""

    knows_first_jump: bool = False
    """Whether :meth:`first_jump` is known."""

    draws_sites_first: bool = False
    """Whether the sites that move, or candidates for them, are drawn without the predictions of the others."""

    draws_candidates: bool = False
    """Whether the sites that are drawn first are candidates, of which those that do not move are found later."""

    @property
    @abstractmethod
    def mixes(self) -> bool:
        """Whether every data state leads to the same states, so that a site's own state excludes no x0."""

    @abstractmethod
    def at(self, x: States, t: Time, kernel: Kernel | None = None) -> Reversal:
        """Return the formula at the states x and the time t.

        Args:
            x: states, checked.
            t: one time, or one per sample.
            kernel: q_t|0, if it is known.
        """

    @abstractmethod
    def with_own_evidence(self, posterior: Posterior, x: States, t: Time, y: States, s: Time) -> Posterior:
        """Return ``posterior`` as if each site's own noisy state were y at time s, instead of x at time t.

        The posterior of a site has two sources, ``p(x0 | x) ~ r(x0) q_t|0(x | x0)``: the other sites, r, and the site's
        own state, q. The second is known exactly and is replaced: ``p(x0) q_s|0(y | x0) / q_t|0(x | x0)``. The
        posterior stays as it is where y cannot be reached from any x0 that x allows.
        """

    @abstractmethod
    def exit_bound(self, low: float, high: float) -> ExitBound:
        """Return an upper bound of all exit rates for c, the integral of the schedule, from ``low`` to ``high``."""

    def first_jump(
        self, x: States, t: float, s: float, posterior: Posterior, free: SiteMask, generator: torch.Generator | None
    ) -> PerSample:
        """Return the time of the first jump of each sample between t and s; s where there is none."""
        raise TypeError("the time of the first jump needs a rank-one process, such as Uniform or Absorbing")


class Reversal(ABC):
    """Define the reverse-rate formula at given states and times."""

    @abstractmethod
    def reachable(self) -> Tensor | None:
        """Return from which x0 each x can be reached, bool (batch, *shape, S); None if from all."""

    @abstractmethod
    def rates(self) -> PosteriorExpectation:
        """Return the reverse rates as a function of the posterior."""

    @abstractmethod
    def step(self, s: Time) -> PosteriorExpectation:
        """Return p(x_s | x) at a time s <= t as a function of the posterior."""

    @abstractmethod
    def ratios(self, posterior: Posterior) -> PerState:
        """Return s_v(x) in the dtype of the logits; in float32 a ratio beyond its range is inf, though no rate is."""

    @abstractmethod
    def jumps(self, posterior: Posterior) -> OutgoingJumps:
        """Return exit rates and draws of destinations, by the reverse rates."""

    @abstractmethod
    def step_jumps(self, s: Time, posterior: Posterior) -> OutgoingJumps:
        """Return the jumps of a step to s; their ``exit_rate`` is the probability that a site leaves x."""

    @abstractmethod
    def log_prob(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        """Return log p(x0 | x) of every site, given that x was reached; it need not be right outside of ``scored``."""


class RateComparison(NamedTuple):
    """Hold a comparison of the reverse rates h with the rates c given x0, one number per site."""

    cost: PerSite
    """``total - weight * signal``, or ``-weight * signal``; differentiable with respect to the logits."""
    total: PerSite
    """sum_v h_v."""
    signal: PerSite
    """sum_v c_v log h_v."""


class PosteriorExpectation(ABC):
    """Define an expectation h under the posterior, such as the reverse rates, at given states x and times."""

    x: States

    @abstractmethod
    def under(self, posterior: Posterior) -> PerState:
        """Return the expectation h under a posterior, in the dtype of its logits."""

    @abstractmethod
    def given(self, x0: States, dtype: torch.dtype) -> PerState:
        """Return c(x0), the expectation h under a posterior that is certain of x0."""

    @full_precision
    def given_among(self, x0: States, leaving: Tensor, total: Tensor) -> PerSite:
        """Return ``sum_v c_v(x0) / (leaving_v + total - leaving_x)``, where terms with c = 0 count as 0.

        The divisor is the rate of all sites of the sample together after this site has moved to v.

        Args:
            x0: the data.
            leaving: the rate at which a site leaves each state, (batch, S) or (batch, *shape, S).
            total: the rate of all sites of a sample together in its present states, (batch,).
        """
        known = self.given(x0, leaving.dtype)
        leaving = leaving.reshape(len(leaving), *(1,) * (known.ndim - leaving.ndim), *leaving.shape[1:])
        elsewhere = along_batch(total, known.ndim) - leaving.expand(known.shape).gather(-1, self.x[..., None])
        divisor = leaving + elsewhere.clamp(min=0.0)
        return torch.where(known > 0, known / divisor, 0.0).sum(-1)

    @abstractmethod
    def divergence(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        """Return sum_v h_v - c_v + c_v log(c_v / h_v), differentiable with respect to the logits of the posterior.

        Args:
            x0: the data.
            posterior: p(x0 | x) over the data states.
            scored: the sites where the result is used, which may save the logits of the others. Default: all.
        """

    @abstractmethod
    def compare(
        self,
        x0: States,
        posterior: Posterior,
        *,
        weight: Tensor | None = None,
        total: bool = True,
        scored: SiteMask | None = None,
    ) -> RateComparison:
        """Return ``sum_v h_v - weight sum_v c_v log h_v`` and its parts, for rates.

        Args:
            x0: the data.
            posterior: p(x0 | x) over the data states.
            weight: of the signal, (batch,). Default: 1.
            total: whether the cost includes ``sum_v h_v``.
            scored: the sites where the result is used, which may save the logits of the others. Default: all.
        """


def replaced_logits(posterior: Posterior, logits: PerState) -> Posterior:
    """Return the posterior of the new logits; sites where all of these are -inf keep the old ones."""
    impossible = (logits == -torch.inf).all(-1, keepdim=True)
    return Posterior(torch.where(impossible, posterior.logits, logits))


class OutgoingJumps(ABC):
    """Define the jumps out of given states: the exit rate of each site, and draws of destinations.

    A step of a sampler needs the exit rates of all sites and the destinations of those that jump; intermediate results
    that both need are computed once.
    """

    @property
    @abstractmethod
    def exit_rate(self) -> PerSite:
        """The sum of a site's rates."""

    @property
    def exit_bound(self) -> PerSite | None:
        """An upper bound of the exit rates that needs no prediction, float64; None if no useful one is known.

        It selects candidates, and :meth:`exit_rate_at` needs the predictions of these sites alone (thinning).
        """
        return None

    def exit_rate_at(self, sites: Tensor) -> Tensor:
        """Return the exit rates of some sites, (n,).

        Args:
            sites: positions in ``x.flatten()``, increasing; all sites of which a destination will be drawn are among
                them.
        """
        return self.exit_rate.reshape(-1).index_select(0, sites)

    def leaving(self, draws: PerSite) -> Tensor:
        """Return the positions of the sites that leave x in a step, of which ``exit_rate`` is the probability.

        Args:
            draws: a uniform draw per site; a site leaves if it is below the probability.
        """
        bound = self.exit_bound
        if bound is None:
            return (draws < check_rates(self.exit_rate)).reshape(-1).nonzero().squeeze(-1)
        candidates = (draws < bound).reshape(-1).nonzero().squeeze(-1)
        leaves = draws.reshape(-1).index_select(0, candidates) < check_rates(self.exit_rate_at(candidates))
        return candidates[leaves]

    @abstractmethod
    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return a destination for each chosen site, (n,).

        Args:
            chosen: positions in ``x.flatten()`` of sites with an exit rate above 0; a position may occur repeatedly.
            generator: the source of randomness.
        """


class CorrectorJumps(OutgoingJumps):
    """Reverse and forward jumps together: R_c = R + Rhat."""

    def __init__(self, backward: OutgoingJumps, process: ForwardProcess, x: States, t: Time) -> None:
        self.backward, self.process, self.x = backward, process, x
        self.forward = process.exit_rate(x, t, dtype=_device.widest_dtype(x.device))

    @property
    def exit_rate(self) -> PerSite:
        backward = self.backward.exit_rate
        return backward + self.forward.to(backward.dtype)

    def exit_rate_at(self, sites: Tensor) -> Tensor:
        backward = self.backward.exit_rate_at(sites)
        return backward + self.forward.reshape(-1).index_select(0, sites).to(backward.dtype)

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        forward = self.forward.reshape(-1)[chosen].to(torch.float64)
        total = forward + self.backward.exit_rate_at(chosen).to(torch.float64)
        is_forward = _draw.uniforms(chosen.shape, self.x.device, generator) * total < forward
        # Forward jumps first: their number is the only value that the host reads from the device.
        order, number = is_forward.argsort(descending=True, stable=True), int(is_forward.sum())
        forwards, backwards = order[:number], order[number:]
        out = torch.empty_like(chosen)
        out[forwards] = self.process.draw_jump(self.x, chosen[forwards], generator=generator)
        out[backwards] = self.backward.draw(chosen[backwards], generator)
        return out


class UnobservedJumps(OutgoingJumps):
    """Restrict jumps to the sites that are not observed."""

    def __init__(self, jumps: OutgoingJumps, observed: Observed) -> None:
        self.jumps, self.observed = jumps, observed

    @property
    def exit_rate(self) -> PerSite:
        return self.jumps.exit_rate.masked_fill(self.observed.mask, 0.0)

    @property
    def exit_bound(self) -> PerSite | None:
        bound = self.jumps.exit_bound
        return None if bound is None else bound.masked_fill(self.observed.mask, 0.0)

    def exit_rate_at(self, sites: Tensor) -> Tensor:
        rates = self.jumps.exit_rate_at(sites)
        return rates.masked_fill(self.observed.mask.reshape(-1).index_select(0, sites), 0.0)

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        return self.jumps.draw(chosen, generator)


def check_rates(exits: PerSite) -> PerSite:
    """Return exit rates; on the CPU raise a ValueError if one is NaN, since such a site would never jump."""
    if _device.is_host(exits.device) and bool(exits.isnan().any()):
        raise ValueError(
            "the denoiser's posterior gives rates that are NaN: its logits are NaN, or -inf for every clean state from "
            "which x can be reached; return a finite logit for each data state"
        )
    return exits


def positions(sites: Tensor, x: States) -> Tensor:
    """Return ``sites``, a bool mask or positions, as int64 positions in ``x.flatten()``."""
    if not isinstance(sites, Tensor) or sites.dtype not in (torch.bool, torch.int64):
        given = sites.dtype if isinstance(sites, Tensor) else type(sites).__name__
        raise TypeError(f"sites must be a bool mask (batch, *shape) or int64 positions in x.flatten(), got {given}")
    if sites.dtype == torch.int64:
        _check.positions(sites, x)
        return sites
    if sites.shape != x.shape:
        raise ValueError(f"a mask of sites must have the shape of x, {tuple(x.shape)}, got {tuple(sites.shape)}")
    return sites.reshape(-1).nonzero().squeeze(-1)


class LossRequest(NamedTuple):
    """Select the terms of a loss: the divergence, or -weight sum_v c_v log h_v and perhaps sum_v h_v; and its gradient.

    The first sum is called ``signal``, the second ``total``; h are the reverse rates, and c those given x0.
    """

    divergence: bool
    total: bool
    weight: Tensor | None
    gradient: bool


class LossResult(NamedTuple):
    """Hold the numbers of a :class:`LossRequest`; a divergence has no ``total`` and ``signal``."""

    cost: Tensor
    total: Tensor | None
    signal: Tensor | None
    gradient: Tensor | None


class ExpectationOfLogits(PosteriorExpectation):
    """Compute losses with their gradient by one function of the logits; a subclass defines :meth:`_loss`.

    Value and gradient are computed in one pass and without a graph, so that the gradient is the only tensor of the size
    of the logits that is kept. Logarithms of sums that underflow are taken in log space.
    """

    @full_precision
    def divergence(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        request = LossRequest(divergence=True, total=True, weight=None, gradient=False)
        return _WithGradient.apply(posterior.parametrisation.logits, self, x0, request)[0]  # pyright: ignore[reportIndexIssue]

    @full_precision
    def compare(
        self,
        x0: States,
        posterior: Posterior,
        *,
        weight: Tensor | None = None,
        total: bool = True,
        scored: SiteMask | None = None,
    ) -> RateComparison:
        request = LossRequest(divergence=False, total=total, weight=weight, gradient=False)
        return RateComparison(*_WithGradient.apply(posterior.parametrisation.logits, self, x0, request))  # pyright: ignore

    @abstractmethod
    def _loss(self, logits: Tensor, x0: States, request: LossRequest, /) -> LossResult:
        """Return the requested comparison; ``logits`` must not be changed."""


class _WithGradient(torch.autograd.Function):
    """Compute one number per site together with its gradient with respect to the logits."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, expectation: ExpectationOfLogits, x0: Tensor, request: LossRequest
    ) -> tuple[Tensor, ...]:
        found = expectation._loss(logits, x0, request._replace(gradient=ctx.needs_input_grad[0]))
        ctx.save_for_backward(found.gradient)
        parts = [part for part in (found.total, found.signal) if part is not None]
        ctx.mark_non_differentiable(*parts)
        return found.cost, *parts

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0][..., None], None, None, None
