"""The law pi as a comparison needs it: its mass around x and x0, and whether float32 has numbers for what follows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import States
from tauleap.noise.rank_one import LawFacts, at_own_state, mass_elsewhere

if TYPE_CHECKING:
    from tauleap.reverse.rank_one_mixture import RankOneMixture

_SMALLEST_LAW = 1e-36  # from here on float32 has normal numbers for a probability and for its inverse
_SMALLEST_FACTOR = 1e-30  # a factor of the law below it, times a probability, is too small for float32
_LARGEST_RATIO = 1e36  # of h / c: float32 ends at 3e38, and sums of such ratios are weighted by the law


class Masses(NamedTuple):
    """Of the law pi, a number for each site or one for all."""

    at_x: Tensor
    at_x0: Tensor
    true: Tensor
    """At x0 where that is not x, else 0."""
    away: Tensor
    """Of all states but x."""
    rest: Tensor
    """Of all states but x and x0."""


class ComparedLaw:
    """pi, (S,) or (sites, S), and what is to be known of its shape; in the dtype of ``like``."""

    def __init__(self, law: Tensor, facts: LawFacts, like: Tensor) -> None:
        self.even, self.spread, self.dominated = facts.even, facts.spread, facts.dominated
        self.some_empty = facts.least == 0
        self.exact, self.values = law, law.to(like.dtype).to(like.device)

    @cached_property
    def inverse(self) -> Tensor:
        return torch.where(self.exact > 0, 1 / self.exact, 0.0).to(self.values.dtype).to(self.values.device)

    def around(self, x: Tensor, x0: Tensor, differs: Tensor) -> Masses:
        """The masses at x and at x0, and those of all other states; one number where it is the same for all.

        ``differs`` is 1 where x0 counts as another state than x, and 0 elsewhere.
        """
        if not self.dominated:
            law_x, law_0 = (self.values[0],) * 2 if self.even else (self._cast(self._exactly_at(at)) for at in (x, x0))
            true_law = law_0 * differs
            return Masses(law_x, law_0, true_law, 1 - law_x, (1 - law_x - true_law).clamp_(min=0.0))
        law_x, law_0 = self._exactly_at(x), self._exactly_at(x0)
        away_x, away_0 = (at_own_state(self._elsewhere, at) for at in (x, x0))
        differs = differs.to(law_x.device)
        rest = torch.where(law_x > law_0, away_x - law_0, away_0 - law_x).clamp_(min=0.0)
        masses = law_x, law_0, law_0 * differs, away_x, torch.where(differs > 0, rest, away_x)
        return Masses(*(self._cast(mass) for mass in masses))

    def logs_elsewhere(self, x: Tensor, x0: Tensor, differs: Tensor, masses: Masses) -> Tensor:
        """sum_v pi_v log pi_v over the states other than x, and other than x0 where it ``differs``."""
        if not self.dominated:
            logs = self._cast(self._negentropy) - torch.xlogy(masses.at_x, masses.at_x)
            return logs - torch.xlogy(masses.true, masses.true)
        law_x, law_0 = self._exactly_at(x), self._exactly_at(x0) * differs.to(self.exact.device)
        return self._cast(self._negentropy - torch.xlogy(law_x, law_x) - torch.xlogy(law_0, law_0))

    @cached_property
    def _negentropy(self) -> Tensor:
        return torch.xlogy(self.exact, self.exact).sum(-1)

    @cached_property
    def _elsewhere(self) -> Tensor:
        return mass_elsewhere(self.exact)

    def _exactly_at(self, x: Tensor) -> Tensor:
        return at_own_state(self.exact, x)

    def _cast(self, value: Tensor) -> Tensor:
        return _device.moved_to(value, self.values.device, self.values.dtype)

    def mean(self, values: Tensor) -> Tensor:
        """sum_v pi_v values_v."""
        if self.even:
            return values.sum(-1) * self.values[0]
        return values @ self.values if self.values.ndim == 1 else (values * self.values).sum(-1)


def sites_beyond_float32(mixture: RankOneMixture, x0: States) -> Tensor | None:
    """Return at which sites, (sites,), the comparison with x0 needs float64; None if at none.

    With c the true rates, ``h / c`` is at most ``max(f / min pi, k) / c_law`` (see ``_Sites``). It is beyond float32
    where x is rare and x0 is x, as c is then nearly 0, or where other states are very rare.
    """
    f, (own, others) = mixture.on_probs, mixture.on_law
    if not x0.numel():
        return None
    smallest = mixture.facts.least_positive
    if smallest < _SMALLEST_LAW:
        return torch.ones(x0.numel(), dtype=torch.bool, device=x0.device)
    # All sites at once first, which nearly always settles it.
    largest, least = _extremes(f.max() / smallest, others, mixture.least_own)
    if least >= _SMALLEST_FACTOR and largest <= _LARGEST_RATIO * least:
        return None
    differs = ((x0 != mixture.x) & ~mixture.fixed).to(own.device)
    c_law = torch.where(differs, others, own)
    beyond = (torch.maximum(f / smallest, others) > _LARGEST_RATIO * c_law) & (c_law > 0)
    beyond = beyond | ((own > 0) & (own < _SMALLEST_FACTOR))
    return beyond.expand(x0.shape).reshape(-1).to(x0.device) if bool(beyond.any()) else None


def _extremes(largest: Tensor, others: Tensor, own: Tensor) -> tuple[float, float]:
    """Return the largest number of all and the smallest positive factor of the law; the host waits at most once."""
    positive = [torch.where(values > 0, values, torch.inf).min() for values in (own, others)]
    numbers = [largest, others.max(), *positive]
    device = next((number.device for number in numbers if not _device.is_host(number.device)), _device.CPU)
    first, second, *least = torch.stack([_device.moved_to(number, device) for number in numbers]).tolist()
    return max(first, second), min(least)
