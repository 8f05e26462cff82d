"""Data, noise, network and posterior of one loss, in this order, shared by all objectives that are added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from math import gcd
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import PerSite, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.noise import Kernel
from tauleap.objective.arguments import check_missing, has_rows
from tauleap.objective.random_order import draw_masked, random_order_mask, time_of
from tauleap.objective.times import Times
from tauleap.observed import Observed, check_observed
from tauleap.reverse import ReverseAt, ReverseProcess

Pass = Literal["x_t", "x_tilde", "x_eps"]
"""A state that the network is evaluated at: ``x_t`` ~ q_t|0(. | x0); ``x_tilde`` is x_t with one more forward jump at a
site drawn by its rate (the paper's x~); ``x_eps`` ~ q_eps|0(. | x0)."""

_ORDER: tuple[Pass, ...] = ("x_t", "x_tilde", "x_eps")


class LossBatch(ABC):
    """Hold the data of a batch, the times, and the reverse process at the noised states.

    Attributes:
        reverse, x0, samples: the reverse process, the data, and the number of samples.
        t, times, weight: the times, one per row of ``x0``, their distribution, and one importance weight per sample.
        passes: the states that the network is evaluated at.
        scored: the sites that have a loss: neither observed nor missing.
        given: whether the times were given by the caller.

    >>> from tauleap.objective import Loss, Objective
    >>> class Changed(Objective):
    ...     def evaluate(self, batch):
    ...         return Loss(batch.sum((batch.x_t != batch.x0).double()), {})
    """

    reverse: ReverseProcess
    x0: States
    t: Tensor
    times: Times
    weight: Tensor
    passes: frozenset[Pass]
    scored: SiteMask
    samples: int
    given: bool
    samples_per_time: int
    """How many consecutive rows of ``x0`` share one time."""
    masked: bool
    """Whether some sites may be unscored."""

    def __init__(self) -> None:
        self._at: dict[Pass, ReverseAt] = {}

    @property
    @abstractmethod
    def x_t(self) -> States:
        """The noised data, from q_t|0(. | x0)."""

    @property
    @abstractmethod
    def x_tilde(self) -> States:
        """x_t with one more forward jump at one scored site; x_t itself if none can jump."""

    @property
    @abstractmethod
    def x_eps(self) -> States:
        """The data noised to eps, from q_eps|0(. | x0)."""

    @property
    @abstractmethod
    def distinct_kernel(self) -> Kernel:
        """q_t|0, one for each of the distinct times."""

    @property
    @abstractmethod
    def count(self) -> Tensor:
        """How many sites of each sample are scored."""

    @property
    @abstractmethod
    def exit_rates(self) -> PerSite:
        """The rate at which each scored site of x_t leaves its state in the forward process, float64; 0 elsewhere."""

    @property
    @abstractmethod
    def can_jump(self) -> Tensor:
        """Whether any scored site of a sample can jump, bool (batch,)."""

    @abstractmethod
    def posterior(self, which: Pass) -> Posterior:
        """Return p(x0 | x) over the data states, from the one evaluation of the network.

        Args:
            which: The pass: "x_t", "x_tilde" or "x_eps".
        """

    @abstractmethod
    def sum(self, values: PerSite) -> Float[Tensor, " samples"]:
        """Return the sum over the scored sites of each sample, or an unbiased estimate of it.

        Args:
            values: One number per site.
        """

    @abstractmethod
    def per_sample(self, values: Tensor) -> Tensor:
        """Return values, one per row of ``x0``, as one per sample.

        Args:
            values: One number per row.
        """

    @abstractmethod
    def at_time(self, t: float) -> LossBatch:
        """Return the same data at another time, with new noise.

        Args:
            t: The time, for all samples.
        """

    def time(self, which: Pass) -> Time:
        """Return the times of a pass, which is one evaluation of the network.

        Args:
            which: The pass: "x_t", "x_tilde" or "x_eps".
        """
        return self.times.eps if which == "x_eps" else self.t

    def at(self, which: Pass) -> ReverseAt:
        """Return the reverse process at the states and times of one evaluation of the network, with its prediction.

        Args:
            which: The pass: "x_t", "x_tilde" or "x_eps".
        """
        if which not in self._at:
            posterior, x, t = self.posterior(which), getattr(self, which), self.time(which)
            # Rows that share a time have no kernel each. States need no check: x was checked when it was x0.
            kernel = self.distinct_kernel if which != "x_eps" and self.samples_per_time == 1 else None
            scored = self.scored if self.masked else None
            self._at[which] = ReverseAt(
                self.reverse, x, t, posterior=posterior, kernel=kernel, checked=True, scored=scored
            )
        return self._at[which]

    def mean_over_time(self, values: Float[Tensor, " batch"], factor: float = 1.0) -> Float[Tensor, " batch"]:
        """Return values times importance weights, whose expectation is ``factor`` times the mean over the times.

        Args:
            values: One number per sample.
            factor: The factor. Default: 1.
        """
        weight = self.weight if factor == 1 else factor * self.weight
        return values * weight.to(values.dtype).to(values.device)


class NoisedBatch(LossBatch):
    """Draw the times and the noise of one loss; everything is computed when it is first needed.

    Observed sites hold their values, and missing ones a draw from the sampling prior (the mask under absorbing noise).
    The network is evaluated once, on all ``passes`` together.

    Args:
        reverse: the reverse process.
        x0: the data.
        times: the distribution of the times.
        passes: the states that the network is evaluated at.
        t: given times. Default: drawn from ``times``.
        observed: the observed sites. Default: none.
        missing: the sites without a value. Default: none.
        condition: the input of the denoiser. Default: none.
        rows: whether the condition has one row per sample. Default: if its length is the batch size.
        samples_per_time: how many consecutive samples share one time, reduced to a divisor of the batch. Default: 1.
        places: one number in [0, 1) per sample that sets the number of masked sites (``random_order``). Default: None.
        generator: the source of randomness. Default: that of torch.

    >>> from tauleap import denoise, noise, objective
    >>> process = noise.Absorbing(3, noise.Constant(50.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(torch.tensor([0.5, 0.5, 0.0]), process))
    >>> NoisedBatch(reverse, torch.tensor([[0]]), objective.UniformTimes(), frozenset({"x_t"}), t=1.0).x_t
    tensor([[2]])
    """

    def __init__(
        self,
        reverse: ReverseProcess,
        x0: States,
        times: Times,
        passes: frozenset[Pass],
        *,
        t: Time | None = None,
        observed: Observed | None = None,
        missing: Tensor | None = None,
        condition: Tensor | None = None,
        rows: bool | None = None,
        samples_per_time: int = 1,
        places: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_kinds(observed, condition, generator)
        self.reverse, self.times, self.passes = reverse, times, passes
        self.observed, self.condition, self.generator = observed, condition, generator
        self.rows = condition is not None and (has_rows(condition, len(x0)) if rows is None else rows)
        self.missing = None if missing is None else check_missing(missing, x0)
        self.masked = observed is not None or missing is not None
        x0 = self._without_masked(x0) if self.masked else x0
        self.x0, self.samples = _check.states(x0, reverse.process.num_states, name="x0"), len(x0)
        reverse.process.check_data(self.x0, self.missing)
        self.scored = self._scored() if self.masked else torch.ones_like(self.x0, dtype=torch.bool)
        self.given = t is not None
        self.samples_per_time = gcd(samples_per_time, len(x0)) if t is None else 1
        if self.samples_per_time > 1 and reverse.process.prior().ndim > 1:
            raise ValueError(
                "samples cannot share a time, because the sites of this process have different priors: "
                "write samples_per_time=1"
            )
        if places is not None:
            mask = random_order_mask(reverse.process, "a number of masked sites")
            masks = draw_masked(self.scored, places, generator)
            self.t, self.weight = time_of(reverse.process, masks.m), masks.weight
            vars(self)["x_t"] = self._with_known(self.x0.masked_fill(masks.masked, mask))
        elif t is None:
            drawn = times.draw(len(x0) // self.samples_per_time, device=x0.device, generator=generator)
            self.t, self.weight = (each.repeat_interleave(self.samples_per_time) for each in drawn)
        else:
            given = _check.time(t, len(x0))
            self.t = _device.moved_to(given, x0.device) if given.ndim else given
            self.weight = torch.ones_like(self.t)
        self.subsets: dict[float, LossBatch] = {}
        """Subsets of the sites of this batch, by their fraction of all sites."""

    @property
    def count(self) -> Tensor:
        return self.scored.reshape(len(self.x0), -1).sum(-1)

    @property
    def distinct(self) -> Tensor:
        """The distinct times, one for every ``samples_per_time`` samples."""
        return self.t if self.samples_per_time == 1 else self.t[:: self.samples_per_time]

    @cached_property
    def distinct_kernel(self) -> Kernel:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.reverse.process.kernel(self.distinct)

    @cached_property
    def x_t(self) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._noised("x_t")

    @cached_property
    def x_eps(self) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._noised("x_eps")

    @cached_property
    def x_tilde(self) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        x = self.x_t
        rates = self.exit_rates.reshape(len(x), -1)
        # A site and a destination are drawn for every row, also for those that cannot jump, whose draws are discarded:
        # a batch that is split into pieces must draw as often as the whole.
        site = _draw.categorical(rates, self.generator).masked_fill_(~self.can_jump, 0)
        site += torch.arange(len(x), device=rates.device) * rates.shape[1]
        after = self.reverse.process.draw_jump(x.to(rates.device), site, generator=self.generator)
        flat, site = x.reshape(-1), site.to(x.device)
        after = torch.where(self.can_jump.to(x.device), after.to(x.device), flat.index_select(0, site))
        return flat.index_copy(0, site, after).reshape(x.shape)

    @cached_property
    def exit_rates(self) -> PerSite:  # pyright: ignore[reportIncompatibleMethodOverride]
        rates = self.reverse.process.exit_rate(self.x_t, self.t, dtype=torch.float64)
        return rates.masked_fill(~self.scored.to(rates.device), 0.0)

    @cached_property
    def can_jump(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.exit_rates.reshape(len(self.x0), -1).sum(-1) > 0

    def posterior(self, which: Pass) -> Posterior:
        if which not in self.passes:
            raise ValueError(
                f"the network is evaluated at {sorted(self.passes)}, not at {which!r}: add {which!r} to "
                "`needs`, an attribute of the objective"
            )
        return self._posteriors[which]

    def sum(self, values: PerSite) -> Float[Tensor, " samples"]:
        return sum_scored(values, self)

    def per_sample(self, values: Tensor) -> Tensor:
        return values

    def at_time(self, t: float) -> NoisedBatch:
        return NoisedBatch(
            self.reverse,
            self.x0,
            self.times,
            self.passes,
            t=t,
            observed=self.observed,
            missing=self.missing,
            condition=self.condition,
            rows=self.rows,
            generator=self.generator,
        )

    @cached_property
    def _posteriors(self) -> dict[Pass, Posterior]:
        passes: list[Pass] = [which for which in _ORDER if which in self.passes]
        if len(passes) == 1:
            which = passes[0]
            return {which: self._predict(getattr(self, which), self.time(which), self.observed, self.condition)}
        size, device = len(self.x0), self.x0.device
        x = torch.cat([getattr(self, which) for which in passes])
        t = torch.cat([_times(self.time(which), device).expand(size) for which in passes])
        observed, condition = self.observed, self.condition
        if observed is not None:
            repeats = (len(passes), *(1,) * (self.x0.ndim - 1))
            observed = Observed(observed.mask.repeat(repeats), observed.values.repeat(repeats))
        if condition is not None and self.rows:
            condition = torch.cat([condition] * len(passes))
        predicted = self._predict(x, t, observed, condition)
        return {
            which: predicted.rearranged(lambda values, number=number: values[number * size : (number + 1) * size])
            for number, which in enumerate(passes)
        }

    def _predict(self, x: States, t: Time, observed: Observed | None, condition: Tensor | None) -> Posterior:
        posterior = self.reverse.denoiser(x, t, observed=observed, condition=condition)
        if not isinstance(posterior, Posterior):
            raise TypeError(f"the denoiser must return a Posterior, got {type(posterior).__name__}")
        return posterior

    def _without_masked(self, x0: States) -> States:
        """Return x0 with the observed values, and with any data state where the value is missing."""
        if self.missing is not None:
            x0 = x0.masked_fill(self.missing, 0)
        if self.observed is not None:
            self.observed.check(x0, self.reverse.process.num_states, name="x0")
            x0 = self.observed.fill(x0)
        return x0

    def _scored(self) -> SiteMask:
        """Return which sites have a loss, after a check of the masks."""
        scored = torch.ones_like(self.x0, dtype=torch.bool)
        if self.observed is not None:
            scored &= ~self.observed.mask
        if self.missing is not None:
            if self.observed is not None and bool((self.missing & self.observed.mask).any()):
                raise ValueError("a site cannot be observed and missing at once: clear one of the two masks there")
            scored &= ~self.missing
        # One of several pieces of a batch may have no loss while others have.
        whole = not isinstance(self.generator, _draw.PartOfBatch) or self.generator.parts == 1
        if whole and not bool(scored.any()):
            raise ValueError(
                "no site has a loss, because every site is observed or missing: leave some sites out of both masks"
            )
        return scored

    def _noised(self, which: Literal["x_t", "x_eps"]) -> States:
        """Return the noisy states of a pass."""
        kernel = self.distinct_kernel if which == "x_t" else self.reverse.process.kernel(self.times.eps)
        x0 = self.x0 if self.samples_per_time == 1 else self.x0.reshape(len(self.distinct), -1)
        return self._with_known(kernel.sample(x0, self.generator).reshape(self.x0.shape))

    def _with_known(self, x: States) -> States:
        """Return states with the observed values, and with draws from the sampling prior where x0 is missing."""
        if self.missing is not None:
            unknown = _draw.from_law(self.reverse.process.sampling_prior(), x.shape, self.generator).to(x.device)
            x = torch.where(self.missing, unknown, x)
        return x if self.observed is None else self.observed.fill(x)


def sum_scored(values: PerSite, batch: LossBatch) -> Float[Tensor, " samples"]:
    """Return the sum of ``values`` over the scored sites of each sample."""
    if batch.masked:
        values = values.masked_fill(~batch.scored, 0.0)
    return values.reshape(batch.samples, -1).sum(-1)


def _times(t: Time, device: torch.device) -> Tensor:
    """Return times in float64 on ``device``, where a number needs no copy."""
    if isinstance(t, Tensor):
        return t.to(device, torch.float64)
    return torch.full((), t, dtype=torch.float64, device=device)


def check_kinds(observed: object, condition: object, generator: object) -> None:
    """Raise a TypeError for arguments of other types."""
    if observed is not None:
        check_observed(observed)
    if condition is not None and not isinstance(condition, Tensor):
        raise TypeError(f"condition must be a tensor, got {type(condition).__name__}: write torch.tensor(condition)")
    _check.randomness(generator)
