"""The reverse process at given states x and a time t: rates, steps and losses from one evaluation of the denoiser."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import PerSample, PerSite, PerState, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.denoise.deferred import Deferred
from tauleap.denoise.on_device import moved
from tauleap.denoise.undefined import check_defined
from tauleap.noise import ForwardProcess, Kernel, RankOneProcess
from tauleap.observed import Observed, select_rows
from tauleap.reverse.absorbing import AbsorbingStructure
from tauleap.reverse.base import (
    CorrectorJumps,
    OutgoingJumps,
    PosteriorExpectation,
    Reversal,
    Structure,
    UnobservedJumps,
    positions,
)
from tauleap.reverse.dense.rates import DenseStructure
from tauleap.reverse.rank_one.rates import RankOneStructure

if TYPE_CHECKING:
    from tauleap.reverse.process import ReverseProcess

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _on_exact_device(method: Callable[Concatenate[ReverseAt, _P], _R]) -> Callable[Concatenate[ReverseAt, _P], _R]:
    """Run a method on the CPU if the states come from a device without float64, and move its result back there."""

    @wraps(method)
    def call(self: ReverseAt, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if self.home is None:
            return method(self, *args, **kwargs)
        untyped: Any = method  # the types of moved arguments are not known
        positional = [moved(value, _device.CPU) for value in args]
        named = {name: moved(value, _device.CPU) for name, value in kwargs.items()}
        return moved(untyped(self, *positional, **named), self.home)

    return call


def structure_of(process: ForwardProcess) -> Structure:
    """Return the formulas for a process. This is the only place that selects code by the kind of process."""
    structure = RankOneStructure(process) if isinstance(process, RankOneProcess) else DenseStructure(process)
    return structure if process.mask is None else AbsorbingStructure(process, structure)


class ReverseAt:
    """Evaluate the reverse process at given states and a time. Created by :meth:`ReverseProcess.at`.

    The denoiser is evaluated once, when it is first needed.

    Args:
        reverse: The reverse process.
        x: The states.
        t: The time, one for all samples or one per sample.
        observed: The observed sites. Default: none.
        condition: The input of the denoiser. Default: none.
        posterior: p(x0 | x). Default: that of the denoiser.
        kernel: q_t|0. Default: that of the process.
        checked: Whether the caller has checked these arguments, and checks those of the methods. Default: False.
        home: The device of the results, if ``x`` was moved from it to the CPU. Default: that of ``x``.
        scored: The sites whose losses are used. The losses of other sites may be wrong, so that their logits need not
            be computed. Default: all.

    >>> from tauleap import ReverseProcess
    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> process = Uniform(2, Constant(0.5))
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([[0.5, 0.0], [0.0, 0.5]]), process))
    >>> reverse.at(torch.tensor([[0, 0], [0, 1]]), 0.5).exit_rate
    tensor([[0.2311, 0.2311],
            [1.0820, 1.0820]])
    """

    def __init__(
        self,
        reverse: ReverseProcess,
        x: States,
        t: Time,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
        kernel: Kernel | None = None,
        *,
        checked: bool = False,
        home: torch.device | None = None,
        scored: SiteMask | None = None,
    ) -> None:
        self.reverse, self.process, self.home, self.scored = reverse, reverse.process, home, scored
        self.t, self.observed, self.condition, self.kernel = t, observed, condition, kernel
        self._is_checked = checked
        self.x = x if checked else self._check(x)
        self._deferred: Deferred | None = None
        self._given = None if posterior is None else self._over_data_states(posterior, "posterior")

    @cached_property
    def posterior(self) -> Posterior:
        """p(x0 | x) over the data states, as given or as the denoiser predicts it."""
        return self._predicted() if self._given is None else self._given

    def evaluated(self) -> ReverseAt:
        """Evaluate the denoiser now, and return this object; raise a ValueError if a site has no distribution."""
        self.posterior = check_defined(self.posterior, self.t)
        return self

    def deferred(self) -> ReverseAt:
        """Postpone the evaluation of the denoiser to the rows whose logits are needed, and return this object.

        The condition must have one entry per sample. The denoiser is evaluated now for processes whose jumping sites
        cannot be drawn before the predictions are known.
        """
        structure = structure_of(self.process)
        if self._given is not None or not structure.draws_sites_first:
            return self.evaluated()
        shape = torch.Size((*self.x.shape, self.process.num_states))
        # To select rows, the host waits for their number. With candidates it already waits once, so on an accelerator
        # all rows are evaluated instead.
        selects_rows = _device.is_host(self.x.device) or not structure.draws_candidates
        self._deferred = Deferred(self._predicted_rows, shape, self.x.device, self.t, selects_rows=selects_rows)
        self.posterior = Posterior(self._deferred, over_data_states=True)
        return self

    @property
    def evaluations(self) -> float:
        """How many rows the denoiser was evaluated for, divided by the number of rows."""
        return 1.0 if self._deferred is None else self._deferred.evaluated / max(1, len(self.x))

    @_on_exact_device
    def predicted_posterior(self) -> Posterior:
        """Return the posterior over the data states; raise a ValueError if a site has no distribution."""
        return self.evaluated().posterior

    @_on_exact_device
    def reachable_posterior(self) -> Posterior:
        """Return the posterior without the x0 from which x cannot be reached; raise if a site has no distribution."""
        posterior, reachable = self.posterior, self.reversal.reachable()
        if reachable is not None:
            posterior = posterior.given_reachable(reachable & self.process.data_states.to(self.x.device))
        return check_defined(posterior, self.t)

    @cached_property
    def reversal(self) -> Reversal:
        """The reverse-rate formula at x and t, as a function of any posterior."""
        return structure_of(self.process).at(self.x, self.t, self.kernel)

    @property
    @_on_exact_device
    def ratios(self) -> PerState:
        """s_v(x), an estimate of q_t(x with the site set to v) / q_t(x); 1 at the site's own state."""
        return self.reversal.ratios(self.posterior)

    @property
    @_on_exact_device
    def rates(self) -> PerState:
        """Rhat_t(x, .), 0 at the site's own state and at observed sites."""
        posterior = self.posterior  # the network is evaluated before the rates
        return self._zero_if_observed(self.expected_rates.under(posterior), per_state=True)

    @property
    @_on_exact_device
    def corrector_rates(self) -> PerState:
        """R_t(x, .) + Rhat_t(x, .), whose stationary distribution is q_t (Proposition 4)."""
        posterior = self.posterior
        rates = self.expected_rates.under(posterior)
        return self._zero_if_observed(
            rates + self.process.rates_from(self.x, self.t, dtype=rates.dtype), per_state=True
        )

    @property
    @_on_exact_device
    def exit_rate(self) -> PerSite:
        """The sum of each site's reverse rates."""
        return self.jumps.exit_rate

    @property
    @_on_exact_device
    def corrector_exit_rate(self) -> PerSite:
        """The sum of each site's corrector rates."""
        return self.corrector_jumps.exit_rate

    @cached_property
    def jumps(self) -> OutgoingJumps:
        """Exit rates and draws of destinations, by the reverse rates."""
        return self._unobserved(self.reversal.jumps(self.posterior))

    @cached_property
    def corrector_jumps(self) -> OutgoingJumps:
        """Exit rates and draws of destinations, by the corrector rates."""
        return self._unobserved(CorrectorJumps(self.reversal.jumps(self.posterior), self.process, self.x, self.t))

    @cached_property
    def expected_rates(self) -> PosteriorExpectation:
        """The reverse rates as a function of the posterior, which need not be that of this object."""
        return self.reversal.rates()

    @_on_exact_device
    def conditional_rates(self, x0: States, *, dtype: torch.dtype | None = None) -> PerState:
        """Return the reverse rates if x0 were known: R_t(v, x) q(v | x0) / q(x | x0), 0 at the site's own state.

        Args:
            x0: the data.
            dtype: of the result. Default: float64, or float32 on a device without it.
        """
        x0 = self._check_x0(x0)
        return self.expected_rates.given(x0, dtype or _device.widest_dtype(self.x.device))

    @_on_exact_device
    def divergence(self, x0: States) -> PerSite:
        """Return sum_v Rhat_v - C_v + C_v log(C_v / Rhat_v) >= 0, with C the rates given x0; 0 at observed sites.

        Its integral over t is the bound on the likelihood.

        Args:
            x0: the data.
        """
        x0 = self._check_x0(x0)
        found = self.expected_rates.divergence(x0, self.posterior, self.scored)
        return found if self.observed is None else self._zero_if_observed(found)

    @_on_exact_device
    def log_prob(self, x0: States) -> PerSite:
        """Return log p(x0 | x) of the true x0 at every site, given that x was reached: other x0 are excluded.

        Args:
            x0: The data.
        """
        posterior = self.posterior  # the network is evaluated before the formula
        return self.reversal.log_prob(x0, posterior, self.scored)

    @_on_exact_device
    def step_probs(self, s: Time) -> PerState:
        """Return p(x_s | x) at a time s <= t, per site: D3PM's kernel (Section 2), for any two times.

            p(x_s) = sum_x0 p(x0 | x) q_s|0(x_s | x0) q_t|s(x | x_s) / q_t|0(x | x0)

        At ``s = 0`` this is p(x0 | x). Observed sites stay where they are.

        Args:
            s: the earlier time, or one per sample.
        """
        out = self._step(s).under(self.posterior)
        if self.observed is None:
            return out
        stays = torch.nn.functional.one_hot(self.x, self.process.num_states).to(out.dtype)
        return torch.where(self.observed.mask[..., None], stays, out)

    @_on_exact_device
    def step_divergence(self, x0: States, s: Time) -> PerSite:
        """Return KL(q(x_s | x, x0) || p(x_s | x)), 0 at observed sites.

        Args:
            x0: the data.
            s: the earlier time, or one per sample.
        """
        x0 = self._check_x0(x0)
        return self._zero_if_observed(self._step(s).divergence(x0, self.posterior, self.scored))

    @_on_exact_device
    def draw_step(self, s: Time, *, generator: torch.Generator | None = None) -> States:
        """Return a draw from :meth:`step_probs`, without computing it: first the sites that leave x, then where to.

        Args:
            s: the earlier time, or one per sample.
            generator: the source of randomness. Default: that of PyTorch.
        """
        self._check_time(s)
        jumps = self.reversal.step_jumps(s, self.posterior)
        jumps = jumps if self.observed is None else UnobservedJumps(jumps, self.observed)
        chosen = jumps.leaving(_draw.uniforms(self.x.shape, self.x.device, generator))
        return self.x.reshape(-1).index_copy(0, chosen, jumps.draw(chosen, generator)).reshape(self.x.shape)

    @_on_exact_device
    def draw_destination(
        self, sites: Tensor, *, corrector: bool = False, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return a destination for each of the given sites, (n,), drawn from its normalised rates.

        Args:
            sites: a bool mask (batch, *shape), or int64 positions in ``x.flatten()``, which may occur repeatedly. Their
                exit rates must be above 0.
            corrector: whether to draw from the corrector rates. Default: False.
            generator: the source of randomness. Default: that of PyTorch.
        """
        jumps, chosen = self.corrector_jumps if corrector else self.jumps, positions(sites, self.x)
        if _device.is_host(self.x.device) and bool((jumps.exit_rate.reshape(-1)[chosen] == 0).any()):
            raise ValueError("sites must be sites that can jump: the exit rate of one of them is 0")
        return jumps.draw(chosen, generator)

    def draw_first_jump(self, s: float, *, generator: torch.Generator | None = None) -> PerSample:
        """Return the time at which the first site of each sample jumps, going back from t; s if none does before it.

        The posterior given the other sites is assumed constant. For rank-one processes only.

        Args:
            s: The earlier time.
            generator: The source of randomness. Default: that of PyTorch.
        """
        free = torch.ones_like(self.x, dtype=torch.bool) if self.observed is None else ~self.observed.mask
        return structure_of(self.process).first_jump(self.x, float(self.t), s, self.posterior, free, generator)

    def with_own_evidence(self, y: States, s: Time) -> Posterior:
        """Return the posterior of each site as if its own noisy state were y at time s, instead of x at time t.

            p(x0) q_s|0(y | x0) / q_t|0(x | x0)

        As long as the other sites are unchanged, this is the denoiser's prediction for y at s.

        Args:
            y: The states to assume.
            s: Their time, one for all samples or one per sample.
        """
        return self.reverse.with_own_evidence(self.posterior, self.x, self.t, y, s)

    def _step(self, s: Time) -> PosteriorExpectation:
        self._check_time(s)
        return self.reversal.step(s)

    def _unobserved(self, jumps: OutgoingJumps) -> OutgoingJumps:
        return jumps if self.observed is None else UnobservedJumps(jumps, self.observed)

    def _zero_if_observed(self, values: Tensor, *, per_state: bool = False) -> Tensor:
        if self.observed is None:
            return values
        return values.masked_fill(self.observed.mask[..., None] if per_state else self.observed.mask, 0.0)

    def _check(self, x: States) -> States:
        x = self.reverse.check_states(x, self.observed)
        _check.time(self.t, x.shape[0])
        return x

    def _check_time(self, s: Time) -> None:
        if not self._is_checked:
            _check.time(s, len(self.x), name="s")

    def _check_x0(self, x0: States) -> States:
        x0 = x0 if self._is_checked else self.process._check_states(x0, "x0")
        if x0.shape != self.x.shape:
            raise ValueError(f"x0 must have the shape of x, {tuple(self.x.shape)}, got {tuple(x0.shape)}")
        return x0

    def _predicted(self) -> Posterior:
        posterior = self.reverse.denoiser(self.x, self.t, observed=self.observed, condition=self.condition)
        return self._over_data_states(posterior, "the denoiser's posterior")

    def _predicted_rows(self, rows: Tensor | None) -> Posterior:
        if rows is None:
            return self._predicted()
        t = self.t[rows.to(self.t.device)] if isinstance(self.t, Tensor) and self.t.ndim else self.t
        observed, condition = select_rows(self.observed, self.condition, rows)
        return ReverseAt(self.reverse, self.x[rows], t, observed, condition, checked=True).posterior

    def _over_data_states(self, posterior: Posterior, source: str) -> Posterior:
        if not isinstance(posterior, Posterior):
            raise TypeError(f"{source} must be a Posterior, got {type(posterior).__name__}: write Posterior(logits)")
        expected = (*self.x.shape, self.process.num_states)
        if posterior.shape != expected:
            raise ValueError(
                f"{source} must have logits of shape (B, *shape, S) = {expected}, got {tuple(posterior.shape)}"
            )
        if self.process.all_states_are_data or posterior.over_data_states:
            return posterior
        return posterior.restricted(self.process.data_states.to(self.x.device), over_data_states=True)
