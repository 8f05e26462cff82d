"""A rank-one mixture against the truth: value and gradient together, O(S) a site.

What is done for every state is done a block of sites at a time, so that it stays in the cache; what is done for every
site is done for all of them at once. The probabilities are kept where the gradient will be.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tauleap._shapes import States
from tauleap.noise.kernel import along_batch
from tauleap.noise.rank_one import at_own_state
from tauleap.reverse.mixture import Wanted, Worked, blocks

if TYPE_CHECKING:
    from tauleap.reverse.rank_one_mixture import RankOneMixture, Shares

_SMALLEST_IN_FLOAT32 = 1e-30  # a law with smaller probabilities is divided by in float64


def compare(mixture: RankOneMixture, logits: Tensor, x0: States, wanted: Wanted) -> Worked:
    """The divergence, or the total and the signal, of every site."""
    sites = _Sites(mixture, logits, x0)
    weight = sites.weight(wanted.weight)
    spread = sites.spread_terms(wanted)
    total = signal = None
    if wanted.divergence:
        cost, centre = sites.divergence(spread), sites.excess()
    else:
        total, known, signal = sites.total(), sites.known_total(), sites.signal(spread)
        kept = total if wanted.total else torch.zeros_like(total)
        cost, centre = kept - weight * signal, kept - weight * known
    gradient = sites.gradient(weight, centre, wanted.total).reshape(logits.shape) if wanted.gradient else None
    cost, total, signal = (None if value is None else value.reshape(x0.shape) for value in (cost, total, signal))
    return Worked(cost, total, signal, gradient).to(logits.dtype)  # pyright: ignore[reportArgumentType]


class _Sites:
    """The sites in a row, (n,), or where they have laws of their own (batch, sites).

    ``f``, ``k`` and ``e`` are the mixture's on_probs, on_law and at_own. What is true, c, has ``c_law`` pi_v at v other
    than x and x0, ``c_true`` at x0 where that is not x, and ``c_own`` at x.
    """

    def __init__(self, mixture: RankOneMixture, logits: Tensor, x0: States) -> None:
        law, states, shape = mixture.law, logits.shape[-1], mixture.x.shape
        narrow = float(law[law > 0].min()) >= _SMALLEST_IN_FLOAT32
        self.dtype, self.device = logits.dtype if narrow else torch.float64, logits.device
        self.lead = (-1,) if law.ndim == 1 else (len(logits), -1)
        self.shape = shape
        self.logits, self.x, self.x0 = logits.reshape(*self.lead, states), self._row(mixture.x), self._row(x0)
        self.fixed = self._row(mixture.fixed) if mixture.any_fixed else None
        self.f, self.k, self.e = self._here(mixture.on_probs), self._shares(mixture.on_law), None
        if mixture.at_own is not None:
            self.e = self._shares(mixture.at_own)
        self._read()
        self._weigh(law if law.ndim == 1 else law.reshape(-1, states))

    def _read(self) -> None:
        """Everything that needs the logits: p of all states but x, and what each site must know of them."""
        self.probs = torch.empty(self.logits.shape, dtype=self.dtype, device=self.device)
        self.log_own, self.log_true, self.own, self.others = (self.f.new_empty(self.x.shape) for _ in range(4))
        for part in self._blocks():
            x, probs = self.x[part][..., None], self.probs[part]
            logs = self.logits[part].to(self.dtype).log_softmax(-1)
            self.log_own[part] = logs.gather(-1, x).squeeze(-1)
            self.log_true[part] = logs.gather(-1, self.x0[part][..., None]).squeeze(-1)
            torch.exp(logs, out=probs)
            self.own[part] = probs.gather(-1, x).squeeze(-1)
            probs.scatter_(-1, x, 0.0)  # summed without it: 1 - p(x) would cancel
            if self.fixed is not None:
                probs.masked_fill_(self.fixed[part][..., None], 0.0)
            torch.sum(probs, -1, out=self.others[part])
        if self.fixed is not None:
            self.own.masked_fill_(self.fixed, 1.0)
            self.log_own.masked_fill_(self.fixed, 0.0)

    def _weigh(self, law: Tensor) -> None:
        law_x, law_0 = at_own_state(law, self.x), at_own_state(law, self.x0)
        self.differs = self.x != self.x0
        if self.fixed is not None:
            self.differs &= ~self.fixed
        differs, away = self.differs, self.differs.to(law.device)
        self.law, self.law_x, self.law_0 = self._to(law), self._to(law_x), self._to(law_0)
        self.rest = self._to((1 - law_x - torch.where(away, law_0, 0.0)).clamp(min=0.0))
        largest, smallest = law.amax(-1), law.amin(-1)
        self.even = law.ndim == 1 and bool(largest == smallest)
        self.spread = bool((largest < 1).any())
        self.c_law = torch.where(differs, self.k.others, self.k.own)
        self.c_true = torch.where(differs, self.f + self.k.others * self.law_0, 0.0)
        self.on_law = self.k.own * self.own + self.k.others * self.others
        # States other than x and x0 whose c is 0: those of no probability under the law, or all where c_law is 0.
        self.none = self.c_law == 0
        self.some_empty = bool((smallest == 0).any()) or bool(self.none.any())
        # h - c of the law's factor, of x0 and of x, with no difference of numbers that are nearly equal.
        self.law_excess = self._excess(self.k)
        true_excess = self.f * torch.expm1(self.log_true) + self.law_excess * self.law_0
        self.true_excess = torch.where(differs, true_excess, 0.0)
        # h at x0 and at x in log space: p may have underflowed there, and there need be nothing else in the sum.
        self.log_h_true = torch.logaddexp(self.f.log() + self.log_true, self.on_law.log() + self.law_0.log())
        if self.e is not None:
            self.c_own, self.own_excess = torch.where(differs, self.e.others, self.e.own), self._excess(self.e)
            self.log_h_own = torch.logaddexp(self.e.own.log() + self.log_own, self.e.others.log() + self.others.log())

    def total(self) -> Tensor:
        """sum_v h_v."""
        out = self.f * self.others + self.on_law * (1 - self.law_x)
        return out if self.e is None else out + self.e.own * self.own + self.e.others * self.others

    def known_total(self) -> Tensor:
        """sum_v c_v."""
        out = self.c_true + self.c_law * self.rest
        return out if self.e is None else out + self.c_own

    def excess(self) -> Tensor:
        """sum_v h_v - c_v."""
        others = self.others - torch.where(self.differs, self.log_true.exp(), 0.0)
        out = self.f * others + self.law_excess * self.rest + self.true_excess
        return out if self.e is None else out + self.own_excess

    def spread_terms(self, wanted: Wanted) -> Tensor | None:
        """With y = h / c, sum_v pi_v (y_v - 1 - log y_v), or of log y_v, over v other than x and x0 with c_v > 0.

        None where there are no such states. On the way, sum_v pi_v / y_v for the gradient.
        """
        self.inverse_sum = None
        if not self.spread:
            return None
        out, inverse = self.f.new_empty(self.x.shape), self.f.new_empty(self.x.shape)
        for part in self._blocks():
            ratio = self._ratio(part, elsewhere=1.0)
            terms = (ratio - 1).sub_(ratio.log()) if wanted.divergence else ratio.log()
            out[part] = self._under_law(part, terms)
            if wanted.gradient:
                if self.some_empty:
                    ratio.masked_fill_(self._empty(part), torch.inf)
                inverse[part] = self._under_law(part, self._put(part, ratio, torch.inf).reciprocal_())
        self.inverse_sum = inverse
        return out

    def divergence(self, spread: Tensor | None) -> Tensor:
        """sum_v h_v - c_v + c_v log(c_v / h_v), every term on its own: no large numbers cancel."""
        cost = _cost(self.c_true, self.true_excess, self.log_h_true)
        if self.e is not None:
            cost = cost + _cost(self.c_own, self.own_excess, self.log_h_own)
        if spread is not None:
            cost = cost + self.c_law * spread
        if self.some_empty:
            cost = cost + self.f * self._where_nothing_is_true() + torch.where(self.none, self.on_law * self.rest, 0.0)
        return cost

    def signal(self, spread: Tensor | None) -> Tensor:
        """sum_v c_v log h_v."""
        out = _times_log(self.c_true, self.log_h_true)
        if self.e is not None:
            out = out + _times_log(self.c_own, self.log_h_own)
        if spread is None:
            return out
        log_law = torch.xlogy(self.law, self.law).sum(-1) - torch.xlogy(self.law_x, self.law_x)
        log_law = log_law - torch.where(self.differs, torch.xlogy(self.law_0, self.law_0), 0.0)
        return out + _times_log(self.c_law, spread + torch.xlogy(self.rest, self.c_law) + log_law)

    def gradient(self, weight: Tensor, centre: Tensor, total: bool) -> Tensor:
        """By the logits, of ``[total] - weight sum_v c_v log h_v``; ``centre`` is sum_v p(v) times that by p(v).

        With ``[1] - weight c_v / h_v`` the derivative by h_v. The probabilities are used up.
        """
        kept = 1.0 if total else 0.0
        # What k multiplies: the law's mass away from x, less what is true of it.
        by_law = kept * (1 - self.law_x)
        if self.inverse_sum is not None:
            by_law = by_law - weight * torch.where(self.none, 0.0, self.inverse_sum)
        law_over_true = self.law_0.log() - self.log_h_true
        others, own = (
            k * by_law - weight * _times_exp(self.c_true, k.log() + law_over_true) - centre
            for k in (self.k.others, self.k.own)
        )
        at_x = self.own * own
        if self.e is not None:
            others = others + kept * self.e.others
            others = others - weight * _times_exp(self.c_own, self.e.others.log() - self.log_h_own)
            at_x = self.own * (own + kept * self.e.own)
            at_x = at_x - weight * _times_exp(self.c_own, self.e.own.log() + self.log_own - self.log_h_own)
        at_x0 = -weight * _times_exp(self.c_true, self.f.log() + self.log_true - self.log_h_true)
        everywhere, factor = others + kept * self.f, -weight * self.f
        for part in self._blocks():
            probs = self.probs[part]
            if self.spread:
                slopes = self._ratio(part, elsewhere=torch.inf).reciprocal_().mul_(factor[part][..., None])
                probs.mul_(slopes.add_(everywhere[part][..., None]))
            else:
                probs.mul_(everywhere[part][..., None])
            probs.scatter_add_(-1, self.x[part][..., None], at_x[part][..., None])
            probs.scatter_add_(-1, self.x0[part][..., None], at_x0[part][..., None])
        return self.probs

    def weight(self, value: Tensor | None) -> Tensor:
        """One number a sample, at every site; 1 if there is none."""
        if value is None:
            return torch.ones((), dtype=self.dtype, device=self.device)
        return self._here(along_batch(value, len(self.shape)))

    def _ratio(self, part: slice, elsewhere: float) -> Tensor:
        """h_v / c_v where c_v is c_law pi_v and not 0, and ``elsewhere`` for other v."""
        on_probs, start = self._ratio_factors
        out = self.probs[part] * on_probs[part][..., None]
        if not self.even:
            out.mul_(self._inverse_law)
        out.add_(start[part][..., None])
        if self.some_empty:
            out.masked_fill_(self._empty(part), elsewhere)
        return self._put(part, out, elsewhere)

    @cached_property
    def _ratio_factors(self) -> tuple[Tensor, Tensor]:
        c = torch.where(self.none, 1.0, self.c_law)
        return self.f / (c * self.law_x) if self.even else self.f / c, self.on_law / c

    @cached_property
    def _inverse_law(self) -> Tensor:
        return torch.where(self.law > 0, 1 / self.law, 0.0)

    def _empty(self, part: slice) -> Tensor:
        return (self.law == 0) | self.none[part][..., None]

    def _where_nothing_is_true(self) -> Tensor:
        """The probability of all states other than x and x0 whose c is 0."""
        everywhere = self.others
        if self.spread:
            everywhere = torch.empty_like(self.others)
            for part in self._blocks():
                everywhere[part] = (self.probs[part] * self._empty(part)).sum(-1)
        at_x0 = torch.where(self.differs & ((self.law_0 == 0) | self.none), self.log_true.exp(), 0.0)
        return (everywhere - at_x0).clamp(min=0.0)

    def _excess(self, share: Shares) -> Tensor:
        """What a factor has more than it would have if x0 were known."""
        more = share.others - share.own
        return torch.where(self.differs, -more * self.own, more * self.others)

    def _under_law(self, part: slice, values: Tensor) -> Tensor:
        """sum_v pi_v values_v."""
        if self.even:
            return values.sum(-1) * self.law_x[part]
        return values @ self.law if self.law.ndim == 1 else (values * self.law).sum(-1)

    def _put(self, part: slice, values: Tensor, value: float) -> Tensor:
        """``value`` at x and at x0."""
        return values.scatter_(-1, self.x[part][..., None], value).scatter_(-1, self.x0[part][..., None], value)

    def _blocks(self) -> Iterator[slice]:
        return blocks(self.logits)

    def _row(self, value: Tensor) -> Tensor:
        return value.expand(self.shape).reshape(self.lead)

    def _to(self, value: Tensor) -> Tensor:
        """Cast first, moved second: the device may have no float64."""
        return value.to(self.dtype).to(self.device)

    def _here(self, value: Tensor) -> Tensor:
        return self._row(self._to(value))

    def _shares(self, shares: Shares) -> Shares:
        return shares._replace(own=self._here(shares.own), others=self._here(shares.others))


def _cost(c: Tensor, excess: Tensor, log_h: Tensor) -> Tensor:
    """h - c + c log(c / h), from h - c where the two are near and from log h where they are not."""
    z = excess / torch.where(c == 0, 1.0, c)
    logs = torch.where(z > -0.5, z.log1p(), log_h - c.log())
    return torch.where(c == 0, excess, c * (z - logs))


def _times_log(c: Tensor, log_h: Tensor) -> Tensor:
    """c log h, and 0 where c is."""
    return torch.where(c == 0, 0.0, c * log_h)


def _times_exp(c: Tensor, exponent: Tensor) -> Tensor:
    """c exp(exponent), and 0 where c is."""
    return torch.where(c == 0, 0.0, c * exponent.exp())
