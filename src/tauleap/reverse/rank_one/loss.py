"""The loss in O(S) per site: value and gradient together, a block of sites at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._chunks import chunks
from tauleap._shapes import States
from tauleap.noise.kernel import along_batch, at_own_state
from tauleap.noise.rank_one import LawFacts, mass_elsewhere
from tauleap.reverse.base import LossRequest, LossResult

if TYPE_CHECKING:
    from tauleap.reverse.rank_one.rates import Coefficients, RankOneExpectation

_LARGE_BLOCKS = 2**20  # entries: work per site has an overhead per block that work per state has not
_SMALL_BLOCKS = 2**16  # entries: temporary results stay in the cache


def rank_one_loss(expectation: RankOneExpectation, logits: Tensor, x0: States, request: LossRequest, /) -> LossResult:
    """Return the divergence of every site, or sum_v h_v (the total) and sum_v c_v log h_v (the signal)."""
    law, states = expectation.law, logits.shape[-1]
    law = law if law.ndim == 1 else law.reshape(-1, states)
    # All sites in one row; or one row of sites per sample, if sites have different stationary distributions.
    lead = (-1,) if law.ndim == 1 else (len(logits), -1)
    rows = logits.reshape(*lead, states)
    rare = None if logits.dtype == torch.float64 else expectation.sites_beyond_float32(x0)
    if rare is not None and law.ndim == 1 and not bool(rare.all()):
        columns, gradient = _loss_of_two_dtypes(expectation, law, rows, x0, request, rare)
    else:
        rows = rows if rare is None else _device.exact(rows)
        given = _Given.of(expectation, x0, request, lead, rows)
        columns, gradient = _loss_of_rows(given, _Law(law, expectation.facts, rows), rows, request)
    columns = [_like(column, logits).reshape(x0.shape) for column in columns]
    total, signal = (None, None) if request.divergence else columns[1:]
    slopes = None if gradient is None else _like(gradient, logits).reshape(logits.shape)
    return LossResult(columns[0], total, signal, slopes)


def _loss_of_two_dtypes(
    expectation: RankOneExpectation, law: Tensor, rows: Tensor, x0: States, request: LossRequest, rare: Tensor
) -> tuple[list[Tensor], Tensor | None]:
    """Compute the ``rare`` rows in float64, and the others, usually nearly all, in the dtype of the logits."""
    columns = [rows.new_empty(len(rows)) for _ in range(1 if request.divergence else 3)]
    gradient = torch.empty_like(rows) if request.gradient else None
    for chosen in (~rare, rare):
        places = chosen.nonzero().squeeze(-1)
        some = rows.detach().index_select(0, places)
        some = _device.exact(some) if chosen is rare else some
        given = _Given.of(expectation, x0, request, (-1,), some).at(places.to(some.device))
        found, slopes = _loss_of_rows(given, _Law(law, expectation.facts, some), some, request)
        for column, values in zip(columns, found, strict=True):
            column[places] = _like(values, column)
        if gradient is not None and slopes is not None:
            gradient[places] = _like(slopes, gradient)
    return columns, gradient


def _loss_of_rows(whole: _Given, law: _Law, rows: Tensor, request: LossRequest) -> tuple[list[Tensor], Tensor | None]:
    """Return numbers for every site of ``rows``, and the gradient, in their dtype."""
    gradient = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if request.gradient else None
    found: list[tuple[Tensor, ...]] = []
    for part in chunks(len(rows), rows[:1].numel(), rows.device, _LARGE_BLOCKS, at_most=True):
        place = torch.empty_like(rows[part]) if gradient is None else gradient[part]
        found.append(_Sites(whole.at(part), law, rows[part], place).compute(request))
    return [torch.cat(pieces) for pieces in zip(*found, strict=True)], gradient


def _like(values: Tensor, other: Tensor) -> Tensor:
    """Return the values in the dtype and on the device of ``other``; cast first, since not every device has float64."""
    return values.to(other.dtype).to(other.device)


class _Given(NamedTuple):
    """Hold states and coefficients, one number per site, all of one shape."""

    x: Tensor
    x0: Tensor
    coefficients: Coefficients
    known: Tensor | None
    """Where x0 must be x; None if nowhere."""
    weight: Tensor | None

    @staticmethod
    def of(
        expectation: RankOneExpectation, x0: States, request: LossRequest, lead: tuple[int, ...], like: Tensor
    ) -> _Given:
        """Return the numbers of all sites, in the shape ``lead`` and the dtype of ``like``."""

        def per_site(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            dtype = like.dtype if value.is_floating_point() else value.dtype
            return _device.moved_to(value, like.device, dtype).expand(x0.shape).reshape(lead)

        weight = None if request.weight is None else along_batch(request.weight, x0.ndim)
        known = expectation.x0_is_x if expectation.any_known else None
        coefficients = expectation.coefficients._make(map(per_site, expectation.coefficients))
        return _Given(per_site(expectation.x), per_site(x0), coefficients, per_site(known), per_site(weight))  # pyright: ignore

    def at(self, part: slice | Tensor) -> _Given:
        """Return the numbers of some sites."""

        def some(value: Tensor | None) -> Tensor | None:
            return None if value is None else value[part]

        coefficients = self.coefficients._make(map(some, self.coefficients))
        return _Given(self.x[part], self.x0[part], coefficients, some(self.known), some(self.weight))


class _Sites:
    """Compute the loss of some sites.

    The truth c is ``c_law`` pi_v at v other than x and x0, ``c_true`` at x0 if that is not x, and ``c_own`` at x. The
    probabilities are held in ``place``, which holds the gradient in the end.
    """

    def __init__(self, given: _Given, law: _Law, logits: Tensor, place: Tensor) -> None:
        self.law, self.given = law, given
        self.f, self.k_own, self.k_other, self.e_own, self.e_other = given.coefficients
        places = torch.arange(given.x.numel(), device=given.x.device).reshape(given.x.shape) * logits.shape[-1]
        self.at_x, self.at_x0 = places + given.x, places + given.x0
        self.differs = given.x != given.x0
        if given.known is not None:
            self.differs &= ~given.known
        self._read(logits, place)
        elsewhere = self.differs.to(logits.dtype)  # 1 where x is not x0
        self.masses = law.around(given.x, given.x0, elsewhere)
        self.law_x, self.law_0, self.true_law, self.away, self.rest = self.masses
        self.true = self.true * elsewhere
        self.on_law = self.k_own * self.own + self.k_other * self.others
        self.c_law = torch.where(self.differs, self.k_other, self.k_own)
        self.c_true = self.f * elsewhere + self.k_other * self.true_law
        # States other than x and x0 have c = 0 if their probability under pi is 0, or if c_law is 0.
        some = not _device.is_host(self.c_law.device) or float(self.c_law.min()) == 0
        self.none = self.c_law == 0 if some else None
        # h - c of the law's factor and of x0, with no difference of numbers that are nearly equal.
        self.law_excess = self._excess(self.k_own, self.k_other)
        self.true_excess = self.f * (self.true - elsewhere) + self.law_excess * self.true_law
        # h at x0 and at x in log space: p may have underflowed there, and may be the only term of the sum.
        self.log_f_true = self.f.log() + self.log_true
        self.log_law_0 = self.law_0.log()
        self.log_h_true = torch.logaddexp(self.log_f_true, self.on_law.log() + self.log_law_0)
        if self.e_own is not None and self.e_other is not None:
            self.c_own = torch.where(self.differs, self.e_other, self.e_own)
            self.log_e_own = self.e_own.log() + self.log_own
            self.log_h_own = torch.logaddexp(self.log_e_own, self.e_other.log() + self.others.log())
            self.own_excess = self._excess(self.e_own, self.e_other)

    def _read(self, logits: Tensor, place: Tensor) -> None:
        """Read the logits once: p of all states but x, and the numbers that each site needs."""
        self.probs = torch.softmax(logits, -1, out=place)
        self.own, self.true = self.probs.view(-1)[self.at_x], self.probs.view(-1)[self.at_x0]
        self.log_own, self.log_true = self.own.log(), self.true.log()
        smallest = self.true if self.e_own is None else torch.minimum(self.own, self.true)
        # p underflows where log p does not; on a device computing both costs less than waiting.
        if not _device.is_host(logits.device) or float(smallest.min()) < torch.finfo(logits.dtype).tiny:
            logs = logits.log_softmax(-1).view(-1)
            self.log_own, self.log_true = logs[self.at_x], logs[self.at_x0]
        self._fill(self.probs, self.at_x, 0.0)  # summed without it: 1 - p(x) would cancel
        if self.given.known is not None:
            self.probs.masked_fill_(self.given.known[..., None], 0.0)
            self.own, self.log_own = (
                value.masked_fill(self.given.known, certain)
                for value, certain in ((self.own, 1.0), (self.log_own, 0.0))
            )
        self.others = self.probs.sum(-1)

    def compute(self, request: LossRequest) -> tuple[Tensor, ...]:
        """Return the cost and, unless the divergence is requested, the total and the signal."""
        ratio = self._ratio() if self.law.spread else None
        weight = torch.ones((), dtype=self.f.dtype, device=self.f.device)
        if request.divergence:
            cost, centre, parts = self._divergence(ratio), self._total_excess(), ()
        else:
            weight = weight if self.given.weight is None else self.given.weight
            total, known, signal = self._total(), self._known_total(), self._signal(ratio)
            included = total if request.total else torch.zeros_like(total)
            cost, centre, parts = included - weight * signal, included - weight * known, (total, signal)
        if request.gradient:
            self._gradient(ratio, weight, centre, request.total)
        return cost, *parts

    def _ratio(self) -> Tensor:
        """Return h / c for all v with c = c_law pi_v > 0, and 1 for other v."""
        c = self.c_law if self.none is None else self.c_law.masked_fill(self.none, 1.0)
        out = self.probs * (self.f / (c * self.law_x) if self.law.even else self.f / c)[..., None]
        if not self.law.even:
            out.mul_(self.law.inverse)
        out.add_((self.on_law / c)[..., None])
        return self._elsewhere(out, 1.0)

    def _divergence(self, ratio: Tensor | None) -> Tensor:
        """Return sum_v h_v - c_v + c_v log(c_v / h_v), term by term so that no large numbers cancel."""
        cost = _cost(self.c_true, self.true_excess, self.log_h_true)
        if self.e_own is not None:
            cost = cost + _cost(self.c_own, self.own_excess, self.log_h_own)
        if ratio is not None:
            terms = [self.law.mean((part - 1).sub_(part.log())) for part in _small_blocks(ratio)]
            cost = cost + self.c_law * torch.cat(terms)
        if self.none is not None or self.law.has_zeros:
            cost = cost + self.f * self._prob_where_c_is_zero()
        return cost if self.none is None else cost + self.on_law * self.rest * self.none

    def _signal(self, ratio: Tensor | None) -> Tensor:
        """Return sum_v c_v log h_v."""
        out = _times_log(self.c_true, self.log_h_true)
        if self.e_own is not None:
            out = out + _times_log(self.c_own, self.log_h_own)
        if ratio is None:
            return out
        log_law = self.law.logs_elsewhere(self.given.x, self.given.x0, self.differs, self.masses)
        logs = torch.cat([self.law.mean(part.log()) for part in _small_blocks(ratio)])
        logs = logs + torch.xlogy(self.rest, self.c_law) + log_law
        return out + _times_log(self.c_law, logs)

    def _total(self) -> Tensor:
        """Return sum_v h_v."""
        out = self.f * self.others + self.on_law * self.away
        if self.e_own is None or self.e_other is None:
            return out
        return out + self.e_own * self.own + self.e_other * self.others

    def _known_total(self) -> Tensor:
        """Return sum_v c_v."""
        out = self.c_true + self.c_law * self.rest
        return out if self.e_own is None else out + self.c_own

    def _total_excess(self) -> Tensor:
        """Return sum_v h_v - c_v."""
        out = self.f * (self.others - self.true) + self.law_excess * self.rest + self.true_excess
        return out if self.e_own is None else out + self.own_excess

    def _gradient(self, ratio: Tensor | None, weight: Tensor, centre: Tensor, total: bool) -> None:
        """Write the gradient of ``[total] - weight sum_v c_v log h_v`` by the logits over the probabilities.

        The derivative by h_v is ``[1] - weight c_v / h_v``; ``centre`` is its mean over p. ``ratio`` is overwritten.
        """
        included = 1.0 if total else 0.0
        # The factor of k: the mass of pi away from x, less what the truth takes of it.
        by_law = included * self.away
        if ratio is not None:
            inverse = self._elsewhere(ratio, torch.inf).reciprocal_()
            by_law = by_law - weight * self.law.mean(inverse)
            ratio = inverse
        c_true, law_over_true = weight * self.c_true, self.log_law_0 - self.log_h_true
        others, own = (
            k * by_law - _times_exp(c_true, k.log() + law_over_true) - centre for k in (self.k_other, self.k_own)
        )
        at_x = self.own * own
        if self.e_own is not None and self.e_other is not None:
            others = others + included * self.e_other
            others = others - _times_exp(weight * self.c_own, self.e_other.log() - self.log_h_own)
            at_x = at_x + included * self.own * self.e_own
            at_x = at_x - _times_exp(weight * self.c_own, self.log_e_own - self.log_h_own)
        at_x0 = -_times_exp(c_true, self.log_f_true - self.log_h_true)
        others = others + included * self.f
        slopes = others[..., None]
        if ratio is not None:
            slopes = ratio.mul_((-weight * self.f)[..., None]).add_(slopes)
        flat = self.probs.mul_(slopes).view(-1)
        flat.index_add_(0, self.at_x.reshape(-1), at_x.reshape(-1))
        flat.index_add_(0, self.at_x0.reshape(-1), at_x0.reshape(-1))

    def _prob_where_c_is_zero(self) -> Tensor:
        """Return the probability of all states other than x and x0 whose c is 0."""
        everywhere = (self.probs * self._empty()).sum(-1) if self.law.spread else self.others
        empty = self.law_0 == 0 if self.none is None else (self.law_0 == 0) | self.none
        return (everywhere - self.true * empty).clamp_(min=0.0)

    def _elsewhere(self, values: Tensor, value: float) -> Tensor:
        """Write ``value`` at x, at x0, and at the states whose c is 0."""
        if self.none is not None or self.law.has_zeros:
            values.masked_fill_(self._empty(), value)
        self._fill(values, self.at_x, value)
        return self._fill(values, self.at_x0, value)

    def _empty(self) -> Tensor:
        if self.none is None:
            return self.law.values == 0
        return (self.law.values == 0) | self.none[..., None]

    def _fill(self, values: Tensor, places: Tensor, value: float) -> Tensor:
        values.view(-1).index_fill_(0, places.reshape(-1), value)
        return values

    def _excess(self, of_own: Tensor, of_other: Tensor) -> Tensor:
        """Return a factor of h minus the same factor of c."""
        return (of_other - of_own) * torch.where(self.differs, -self.own, self.others)


class _Masses(NamedTuple):
    """Hold probabilities under pi, one per site or one for all."""

    at_x: Tensor
    at_x0: Tensor
    true: Tensor
    """At x0 if that is not x, else 0."""
    away: Tensor
    """Of all states but x."""
    rest: Tensor
    """Of all states but x and x0."""


class _Law:
    """Hold the stationary distribution pi, (S,) or (sites, S), in the dtype of ``like``, with facts about its shape."""

    def __init__(self, law: Tensor, facts: LawFacts, like: Tensor) -> None:
        self.even, self.spread, self.dominated = facts.even, facts.spread, facts.dominated
        self.has_zeros = facts.least == 0
        self.exact, self.values = law, law.to(like.dtype).to(like.device)

    @cached_property
    def inverse(self) -> Tensor:
        return torch.where(self.exact > 0, 1 / self.exact, 0.0).to(self.values.dtype).to(self.values.device)

    def around(self, x: Tensor, x0: Tensor, differs: Tensor) -> _Masses:
        """Return the masses at x and at x0, and those of all other states; one number if it is the same for all.

        ``differs`` is 1 where x0 counts as another state than x, and 0 elsewhere.
        """
        if not self.dominated:
            law_x, law_0 = (self.values[0],) * 2 if self.even else (self._cast(self._exactly_at(at)) for at in (x, x0))
            true_law = law_0 * differs
            return _Masses(law_x, law_0, true_law, 1 - law_x, (1 - law_x - true_law).clamp_(min=0.0))
        law_x, law_0 = self._exactly_at(x), self._exactly_at(x0)
        away_x, away_0 = (at_own_state(self._elsewhere, at) for at in (x, x0))
        differs = differs.to(law_x.device)
        rest = torch.where(law_x > law_0, away_x - law_0, away_0 - law_x).clamp_(min=0.0)
        masses = law_x, law_0, law_0 * differs, away_x, torch.where(differs > 0, rest, away_x)
        return _Masses(*(self._cast(mass) for mass in masses))

    def logs_elsewhere(self, x: Tensor, x0: Tensor, differs: Tensor, masses: _Masses) -> Tensor:
        """Return sum_v pi_v log pi_v over the states other than x, and other than x0 where it ``differs``."""
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
        """Return sum_v pi_v values_v."""
        if self.even:
            return values.sum(-1) * self.values[0]
        return values @ self.values if self.values.ndim == 1 else (values * self.values).sum(-1)


def _small_blocks(rows: Tensor) -> Iterator[Tensor]:
    """Return views of some rows at a time."""
    return (rows[part] for part in chunks(len(rows), rows[:1].numel(), rows.device, _SMALL_BLOCKS, at_most=True))


def _cost(c: Tensor, excess: Tensor, log_h: Tensor) -> Tensor:
    """Return h - c + c log(c / h), from h - c if the two are close and from log h otherwise."""
    z = excess / c
    logs = torch.where(z > -0.5, z.log1p(), log_h - c.log())
    return torch.where(c == 0, excess, (z - logs).mul_(c))


def _times_log(c: Tensor, log_h: Tensor) -> Tensor:
    """Return c log h, and 0 where c is."""
    return (c * log_h).masked_fill_(c == 0, 0.0)


def _times_exp(c: Tensor, exponent: Tensor) -> Tensor:
    """Return c exp(exponent), and 0 where c is."""
    return (c * exponent.exp()).masked_fill_(c == 0, 0.0)
