"""One draw of noise and one pass of the network, shared by all the objectives that are added."""

from __future__ import annotations

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
from tauleap.noise.kernel import at_own_state
from tauleap.noise.rank_one import draw_from
from tauleap.objective.times import Times
from tauleap.observed import Observed, check_observed
from tauleap.reverse import ReverseProcess
from tauleap.reverse.at import ReverseAt

Pass = Literal["noised", "jumped", "earliest"]
"""What the network is shown: ``noised`` is x ~ q_t|0(. | x0); ``jumped`` is x with one forward jump more, at one site
that is drawn by the sites' rates (the paper's x~); ``earliest`` is noised at eps."""

_ORDER: tuple[Pass, ...] = ("noised", "jumped", "earliest")


class Draw:
    """Data, times and noise for one value of an objective; everything is made when it is first asked for.

    Sites are *scored* unless they are observed or missing: only these have a loss. Observed sites hold their values
    with no noise, and missing ones a draw from the sampling prior (the mask under absorbing noise). The network is
    evaluated once, on all ``passes`` together. ``rows`` says whether the condition has a row for each sample; by
    default it has one if it is as long as the batch. ``share`` samples in a row have one time together, or as many as
    divide the batch.
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
        share: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        check_kinds(observed, condition, generator)
        self.reverse, self.times, self.passes = reverse, times, passes
        self.observed, self.condition, self.generator = observed, condition, generator
        self.rows = condition is not None and (has_rows(condition, len(x0)) if rows is None else rows)
        self.missing = check_missing(missing, x0)
        self.x0, self.samples = self._clean(x0), len(x0)
        self.scored = self._scored()
        self.given = t is not None
        self.share = gcd(share, len(x0)) if t is None else 1
        if self.share > 1 and reverse.process.prior().ndim > 1:
            raise ValueError("the sites of this process have laws of their own, so that samples cannot share a time")
        if t is None:
            drawn = times.draw(len(x0) // self.share, device=_device.exact_device(x0.device), generator=generator)
            self.t, self.weight = (each.repeat_interleave(self.share) for each in drawn)
        else:
            given = _check.time(t, len(x0))
            self.t = _device.moved_to(given, x0.device) if given.ndim else given
            self.weight = torch.ones_like(self.t)
        self._at: dict[Pass, ReverseAt] = {}
        self.parts: dict[float, Draw] = {}
        """Draws of some of the sites of this one, by their share of all sites."""

    @property
    def count(self) -> Tensor:
        """How many sites of each sample are scored."""
        return self.scored.reshape(len(self.x0), -1).sum(-1)

    @property
    def distinct(self) -> Tensor:
        """The times, each once: as many as samples, or one for every ``share`` of them."""
        return self.t if self.share == 1 else self.t[:: self.share]

    @cached_property
    def _kernel(self) -> Kernel:
        """From 0 to t, one for each of the times."""
        return self.reverse.process.kernel(self.distinct)

    @cached_property
    def noised(self) -> States:
        """x ~ q_t|0(. | x0)."""
        x0 = self.x0 if self.share == 1 else self.x0.reshape(len(self.x0) // self.share, -1)
        return self._with_known(self._kernel.sample(x0, self.generator).reshape(self.x0.shape))

    @cached_property
    def earliest(self) -> States:
        """x ~ q_eps|0(. | x0)."""
        return self._with_known(self.reverse.process.noise(self.x0, self.times.eps, generator=self.generator))

    @cached_property
    def jumped(self) -> States:
        """x~ ~ r_t(. | x): one scored site of x has jumped once more; x itself where none can."""
        x = self.noised
        rates = self.exit_rates.reshape(len(x), -1)
        # A site and a destination are drawn for every row, also those that cannot jump, whose draws are then dropped: a
        # batch that is cut into pieces must draw as often as the whole.
        site = _draw.categorical(rates, self.generator).masked_fill_(~self.can_jump, 0)
        site += torch.arange(len(x), device=rates.device) * rates.shape[1]
        after = self.reverse.process.draw_jump(x.to(rates.device), site, generator=self.generator)
        flat, site = x.reshape(-1), site.to(x.device)
        after = torch.where(self.can_jump.to(x.device), after.to(x.device), flat.index_select(0, site))
        return flat.index_copy(0, site, after).reshape(x.shape)

    @cached_property
    def exit_rates(self) -> PerSite:
        """How fast each scored site of x leaves its state in the forward process, in float64; 0 elsewhere."""
        x = self.noised.to(_device.exact_device(self.noised.device))
        rates = self.reverse.process.exit_rate(x, self.t, dtype=torch.float64)
        return rates.masked_fill(~self.scored.to(rates.device), 0.0)

    @cached_property
    def can_jump(self) -> Tensor:
        """Whether any scored site of a sample can jump, bool (batch,)."""
        return self.exit_rates.reshape(len(self.x0), -1).sum(-1) > 0

    def x(self, which: Pass) -> States:
        """The states of that pass."""
        return getattr(self, which)

    def time(self, which: Pass) -> Time:
        """The times of that pass."""
        return self.times.eps if which == "earliest" else self.t

    def posterior(self, which: Pass) -> Posterior:
        """p(x0 | x) over the data states, from the one pass of the network."""
        if which not in self.passes:
            raise ValueError(f"the network was not to be asked about {which!r}, only about {sorted(self.passes)}")
        return self._posteriors[which]

    def at(self, which: Pass) -> ReverseAt:
        """The reverse process at the states and times of that pass, with the network's prediction."""
        if which not in self._at:
            kernel = None if which == "earliest" or self.share > 1 else self._kernel
            posterior = self.posterior(which)
            self._at[which] = self.reverse.at(self.x(which), self.time(which), posterior=posterior, kernel=kernel)
        return self._at[which]

    def sum(self, values: PerSite) -> Float[Tensor, " samples"]:
        """The sum over the scored sites of each sample."""
        if self.observed is not None or self.missing is not None:
            values = values.masked_fill(~self.scored, 0.0)
        return values.reshape(self.samples, -1).sum(-1)

    def mean_over_time(self, values: Float[Tensor, " batch"], factor: float = 1.0) -> Float[Tensor, " batch"]:
        """``values`` at the drawn times, weighted so that their mean is the mean over the times, times ``factor``."""
        weight = self.weight if factor == 1 else factor * self.weight
        return values * weight.to(values.dtype).to(values.device)

    def per_sample(self, values: Tensor) -> Tensor:
        """What there is one of for each time, for each sample."""
        return values

    def again(self, t: float) -> Draw:
        """The same data at another time, with noise of its own."""
        return Draw(
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
            return {which: self._ask(self.x(which), self.time(which), self.observed, self.condition)}
        size, where = len(self.x0), _device.exact_device(self.x0.device)
        x = torch.cat([self.x(which) for which in passes])
        t = torch.cat([_times(self.time(which), where).expand(size) for which in passes])
        observed, condition = self.observed, self.condition
        if observed is not None:
            repeats = (len(passes), *(1,) * (self.x0.ndim - 1))
            observed = Observed(observed.mask.repeat(repeats), observed.values.repeat(repeats))
        if condition is not None and self.rows:
            condition = torch.cat([condition] * len(passes))
        told = self._ask(x, t, observed, condition)
        return {
            which: told.rearranged(lambda values, number=number: values[number * size : (number + 1) * size])
            for number, which in enumerate(passes)
        }

    def _ask(self, x: States, t: Time, observed: Observed | None, condition: Tensor | None) -> Posterior:
        # x was checked when it was x0; no kernel is needed for the posterior.
        return ReverseAt(self.reverse, x, t, observed, condition, checked=True).posterior

    def _clean(self, x0: States) -> States:
        """x0 with the observed values, and with some state, it does not matter which, where nobody knows."""
        process = self.reverse.process
        if self.missing is not None:
            x0 = x0.masked_fill(self.missing, 0)
        if self.observed is not None:
            self.observed.check(x0, process.num_states, name="x0")
            x0 = self.observed.fill(x0)
        x0 = process._check_states(x0, "x0")
        if _device.is_host(x0.device) and not process.all_states_are_data:
            wrong = at_own_state(process.data_states.double(), x0) == 0
            if self.missing is not None:
                wrong &= ~self.missing
            if bool(wrong.any()):
                raise ValueError(
                    f"x0 holds {sorted(set(x0[wrong].tolist()))[:5]}, which data of this process cannot have (the mask "
                    "of an absorbing process, or states of prior 0): say missing=... where the value is not known"
                )
        return x0

    def _scored(self) -> SiteMask:
        scored = torch.ones_like(self.x0, dtype=torch.bool)
        if self.observed is None and self.missing is None:
            return scored
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
                "there is no site to have a loss: every site is observed or missing; leave some sites out of both masks"
            )
        return scored

    def _with_known(self, x: States) -> States:
        if self.missing is not None:
            unknown = draw_from(self.reverse.process.sampling_prior(), x.shape, self.generator).to(x.device)
            x = torch.where(self.missing, unknown, x)
        return x if self.observed is None else self.observed.fill(x)


def _times(t: Time, device: torch.device) -> Tensor:
    """Return times in float64 on ``device``, where a number needs no copy."""
    if isinstance(t, Tensor):
        return t.to(device, torch.float64)
    return torch.full((), t, dtype=torch.float64, device=device)


def has_rows(condition: Tensor, batch: int) -> bool:
    """Whether a condition has a row for each of ``batch`` samples, going by its length."""
    return condition.ndim > 0 and len(condition) == batch


def check_kinds(observed: object, condition: object, generator: object) -> None:
    """Refuses what only looks like an ``Observed``, a condition or a generator."""
    if observed is not None:
        check_observed(observed)
    if condition is not None and not isinstance(condition, Tensor):
        raise TypeError(f"condition must be a tensor, got {type(condition).__name__}: write torch.tensor(condition)")
    _check.randomness(generator)


def check_missing(missing: Tensor | None, x0: States, *, name: str = "x0") -> SiteMask | None:
    """The mask in the shape of ``x0``, called ``name``."""
    if missing is None:
        return None
    if not isinstance(missing, Tensor) or missing.dtype != torch.bool:
        given = missing.dtype if isinstance(missing, Tensor) else type(missing).__name__
        raise TypeError(f"missing must be a bool tensor, true where nobody knows the value, got {given}")
    if missing.shape != x0.shape and missing.shape != x0.shape[1:]:
        raise ValueError(
            f"missing must have the shape of {name}, {tuple(x0.shape)}, or of one sample, {tuple(x0.shape[1:])}, "
            f"got {tuple(missing.shape)}"
        )
    return missing.expand(x0.shape).contiguous()
