"""A rank-one mixture against the truth: value and gradient together, O(S) a site, a block of sites at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import States
from tauleap.noise.kernel import along_batch
from tauleap.reverse.mixture import Wanted, Worked, blocks
from tauleap.reverse.rank_one_law import ComparedLaw, sites_beyond_float32

if TYPE_CHECKING:
    from tauleap.reverse.rank_one_mixture import RankOneMixture, Shares

_LARGE_BLOCKS = 2**20  # what is done for every site costs a block more than what is done for every state
_SMALL_BLOCKS = 2**16  # what is made and dropped again should not leave the cache


def compare(mixture: RankOneMixture, logits: Tensor, x0: States, wanted: Wanted) -> Worked:
    """The divergence, or the total and the signal, of every site."""
    law, states = mixture.law, logits.shape[-1]
    law = law if law.ndim == 1 else law.reshape(-1, states)
    # The sites in a row, or where they have laws of their own the samples, each with its sites.
    lead = (-1,) if law.ndim == 1 else (len(logits), -1)
    rows = logits.reshape(*lead, states)
    rare = None if logits.dtype == torch.float64 else sites_beyond_float32(mixture, x0)
    if rare is not None and law.ndim == 1 and not bool(rare.all()):
        columns, gradient = _compare_apart(mixture, law, rows, x0, wanted, rare)
    else:
        rows = rows if rare is None else _device.exact(rows)
        given = _coefficients(mixture, x0, wanted, lead, rows)
        columns, gradient = _compare(given, ComparedLaw(law, mixture.facts, rows), rows, wanted)
    columns = [_like(column, logits).reshape(x0.shape) for column in columns]
    total, signal = (None, None) if wanted.divergence else columns[1:]
    return Worked(
        columns[0], total, signal, None if gradient is None else _like(gradient, logits).reshape(logits.shape)
    )


def _compare_apart(
    mixture: RankOneMixture, law: Tensor, rows: Tensor, x0: States, wanted: Wanted, rare: Tensor
) -> tuple[list[Tensor], Tensor | None]:
    """The ``rare`` rows in float64, and the others, mostly by far the most, in the dtype of the logits."""
    columns = [rows.new_empty(len(rows)) for _ in range(1 if wanted.divergence else 3)]
    gradient = torch.empty_like(rows) if wanted.gradient else None
    for chosen in (~rare, rare):
        places = chosen.nonzero().squeeze(-1)
        some = rows.detach().index_select(0, places)
        some = _device.exact(some) if chosen is rare else some
        given = _coefficients(mixture, x0, wanted, (-1,), some).at(places.to(some.device))
        found, slopes = _compare(given, ComparedLaw(law, mixture.facts, some), some, wanted)
        for column, values in zip(columns, found, strict=True):
            column[places] = _like(values, column)
        if gradient is not None and slopes is not None:
            gradient[places] = _like(slopes, gradient)
    return columns, gradient


def _like(values: Tensor, other: Tensor) -> Tensor:
    """In the dtype of ``other`` and where it is. Cast first, moved second."""
    return values.to(other.dtype).to(other.device)


def _compare(
    whole: _Coefficients, law: ComparedLaw, rows: Tensor, wanted: Wanted
) -> tuple[list[Tensor], Tensor | None]:
    """Numbers for every site of ``rows``, and the gradient, in their dtype."""
    gradient = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if wanted.gradient else None
    found: list[tuple[Tensor, ...]] = []
    for part in blocks(rows, _LARGE_BLOCKS):
        place = torch.empty_like(rows[part]) if gradient is None else gradient[part]
        found.append(_Sites(whole.at(part), law, rows[part], place).work(wanted))
    return [torch.cat(pieces) for pieces in zip(*found, strict=True)], gradient


def _coefficients(
    mixture: RankOneMixture, x0: States, wanted: Wanted, lead: tuple[int, ...], like: Tensor
) -> _Coefficients:
    """Those of all sites, in the shape ``lead`` and the dtype of ``like``."""

    def spread_out(value: Tensor) -> Tensor:
        """One number per site."""
        dtype = like.dtype if value.is_floating_point() else value.dtype
        return _device.moved_to(value, like.device, dtype).expand(x0.shape).reshape(lead)

    def shares(both: Shares) -> Shares:
        return both._replace(own=spread_out(both.own), others=spread_out(both.others))

    return _Coefficients(
        spread_out(mixture.x),
        spread_out(x0),
        spread_out(mixture.on_probs),
        shares(mixture.on_law),
        None if mixture.at_own is None else shares(mixture.at_own),
        spread_out(mixture.fixed) if mixture.any_fixed else None,
        None if wanted.weight is None else spread_out(along_batch(wanted.weight, x0.ndim)),
    )


class _Coefficients(NamedTuple):
    """``f``, ``k`` and ``e`` are the mixture's on_probs, on_law and at_own; all of one shape."""

    x: Tensor
    x0: Tensor
    f: Tensor
    k: Shares
    e: Shares | None
    fixed: Tensor | None
    weight: Tensor | None

    def at(self, part: slice | Tensor) -> _Coefficients:
        def some(value: Tensor | None) -> Tensor | None:
            return None if value is None else value[part]

        k = self.k._replace(own=self.k.own[part], others=self.k.others[part])
        e = None if self.e is None else self.e._replace(own=self.e.own[part], others=self.e.others[part])
        return _Coefficients(self.x[part], self.x0[part], self.f[part], k, e, some(self.fixed), some(self.weight))


class _Sites:
    """Some sites. What is true, c, has ``c_law`` pi_v at v other than x and x0, ``c_true`` at x0 where that is not x,
    and ``c_own`` at x. The probabilities are kept in ``place``, where the gradient will be in the end."""

    def __init__(self, given: _Coefficients, law: ComparedLaw, logits: Tensor, place: Tensor) -> None:
        self.law, self.given, self.f, self.k, self.e = law, given, given.f, given.k, given.e
        places = torch.arange(given.x.numel(), device=given.x.device).reshape(given.x.shape) * logits.shape[-1]
        self.at_x, self.at_x0 = places + given.x, places + given.x0
        self.differs = given.x != given.x0
        if given.fixed is not None:
            self.differs &= ~given.fixed
        self._read(logits, place)
        elsewhere = self.differs.to(logits.dtype)  # 1 where x is not x0
        self.masses = law.around(given.x, given.x0, elsewhere)
        self.law_x, self.law_0, self.true_law, self.away, self.rest = self.masses
        self.true = self.true * elsewhere
        self.on_law = self.k.own * self.own + self.k.others * self.others
        self.c_law = torch.where(self.differs, self.k.others, self.k.own)
        self.c_true = self.f * elsewhere + self.k.others * self.true_law
        # States other than x and x0 whose c is 0: those of no probability under the law, or all where c_law is 0.
        some = not _device.is_host(self.c_law.device) or float(self.c_law.min()) == 0
        self.none = self.c_law == 0 if some else None
        # h - c of the law's factor and of x0, with no difference of numbers that are nearly equal.
        self.law_excess = self._excess(self.k)
        self.true_excess = self.f * (self.true - elsewhere) + self.law_excess * self.true_law
        # h at x0 and at x in log space: p may have underflowed there, and there need be nothing else in the sum.
        self.log_f_true = self.f.log() + self.log_true
        self.log_law_0 = self.law_0.log()
        self.log_h_true = torch.logaddexp(self.log_f_true, self.on_law.log() + self.log_law_0)
        if self.e is not None:
            self.c_own = torch.where(self.differs, self.e.others, self.e.own)
            self.log_e_own = self.e.own.log() + self.log_own
            self.log_h_own = torch.logaddexp(self.log_e_own, self.e.others.log() + self.others.log())

    def _read(self, logits: Tensor, place: Tensor) -> None:
        """Everything that needs the logits: p of all states but x, and what each site must know of them."""
        self.probs = torch.softmax(logits, -1, out=place)
        self.own, self.true = self.probs.view(-1)[self.at_x], self.probs.view(-1)[self.at_x0]
        self.log_own, self.log_true = self.own.log(), self.true.log()
        smallest = self.true if self.e is None else torch.minimum(self.own, self.true)
        # Too small for p, but not for log p; on a device it costs less than to look.
        if not _device.is_host(logits.device) or float(smallest.min()) < torch.finfo(logits.dtype).tiny:
            logs = logits.log_softmax(-1).view(-1)
            self.log_own, self.log_true = logs[self.at_x], logs[self.at_x0]
        self._fill(self.probs, self.at_x, 0.0)  # summed without it: 1 - p(x) would cancel
        if self.given.fixed is not None:
            self.probs.masked_fill_(self.given.fixed[..., None], 0.0)
            self.own, self.log_own = (
                value.masked_fill(self.given.fixed, sure) for value, sure in ((self.own, 1.0), (self.log_own, 0.0))
            )
        self.others = self.probs.sum(-1)

    def work(self, wanted: Wanted) -> tuple[Tensor, ...]:
        """The cost and, where the divergence is not what is wanted, the total and the signal."""
        ratio = self._ratio() if self.law.spread else None
        weight = torch.ones((), dtype=self.f.dtype, device=self.f.device)
        if wanted.divergence:
            cost, centre, parts = self._divergence(ratio), self._total_excess(), ()
        else:
            weight = weight if self.given.weight is None else self.given.weight
            total, known, signal = self._total(), self._known_total(), self._signal(ratio)
            kept = total if wanted.total else torch.zeros_like(total)
            cost, centre, parts = kept - weight * signal, kept - weight * known, (total, signal)
        if wanted.gradient:
            self._gradient(ratio, weight, centre, wanted.total)
        return cost, *parts

    def _ratio(self) -> Tensor:
        """y = h / c where c is c_law pi_v and not 0, and 1 for other v."""
        c = self.c_law if self.none is None else self.c_law.masked_fill(self.none, 1.0)
        out = self.probs * (self.f / (c * self.law_x) if self.law.even else self.f / c)[..., None]
        if not self.law.even:
            out.mul_(self.law.inverse)
        out.add_((self.on_law / c)[..., None])
        return self._elsewhere(out, 1.0)

    def _divergence(self, ratio: Tensor | None) -> Tensor:
        """sum_v h_v - c_v + c_v log(c_v / h_v), every term on its own: no large numbers cancel."""
        cost = _cost(self.c_true, self.true_excess, self.log_h_true)
        if self.e is not None:
            cost = cost + _cost(self.c_own, self._excess(self.e), self.log_h_own)
        if ratio is not None:
            terms = [self.law.mean((ratio[part] - 1).sub_(ratio[part].log())) for part in blocks(ratio, _SMALL_BLOCKS)]
            cost = cost + self.c_law * torch.cat(terms)
        if self.none is not None or self.law.some_empty:
            cost = cost + self.f * self._where_nothing_is_true()
        return cost if self.none is None else cost + self.on_law * self.rest * self.none

    def _signal(self, ratio: Tensor | None) -> Tensor:
        """sum_v c_v log h_v."""
        out = _times_log(self.c_true, self.log_h_true)
        if self.e is not None:
            out = out + _times_log(self.c_own, self.log_h_own)
        if ratio is None:
            return out
        log_law = self.law.logs_elsewhere(self.given.x, self.given.x0, self.differs, self.masses)
        logs = torch.cat([self.law.mean(ratio[part].log()) for part in blocks(ratio, _SMALL_BLOCKS)])
        logs = logs + torch.xlogy(self.rest, self.c_law) + log_law
        return out + _times_log(self.c_law, logs)

    def _total(self) -> Tensor:
        """sum_v h_v."""
        out = self.f * self.others + self.on_law * self.away
        return out if self.e is None else out + self.e.own * self.own + self.e.others * self.others

    def _known_total(self) -> Tensor:
        """sum_v c_v."""
        out = self.c_true + self.c_law * self.rest
        return out if self.e is None else out + self.c_own

    def _total_excess(self) -> Tensor:
        """sum_v h_v - c_v."""
        out = self.f * (self.others - self.true) + self.law_excess * self.rest + self.true_excess
        return out if self.e is None else out + self._excess(self.e)

    def _gradient(self, ratio: Tensor | None, weight: Tensor, centre: Tensor, total: bool) -> None:
        """By the logits, of ``[total] - weight sum_v c_v log h_v``; ``centre`` is sum_v p(v) times that by p(v).

        With ``[1] - weight c_v / h_v`` the derivative by h_v. Put where the probabilities are; ``ratio`` is used up.
        """
        kept = 1.0 if total else 0.0
        # What k multiplies: the law's mass away from x, less what is true of it.
        by_law = kept * self.away
        if ratio is not None:
            inverse = self._elsewhere(ratio, torch.inf).reciprocal_()
            by_law = by_law - weight * self.law.mean(inverse)
            ratio = inverse
        c_true, law_over_true = weight * self.c_true, self.log_law_0 - self.log_h_true
        others, own = (
            k * by_law - _times_exp(c_true, k.log() + law_over_true) - centre for k in (self.k.others, self.k.own)
        )
        at_x = self.own * own
        if self.e is not None:
            others = others + kept * self.e.others
            others = others - _times_exp(weight * self.c_own, self.e.others.log() - self.log_h_own)
            at_x = at_x + kept * self.own * self.e.own
            at_x = at_x - _times_exp(weight * self.c_own, self.log_e_own - self.log_h_own)
        at_x0 = -_times_exp(c_true, self.log_f_true - self.log_h_true)
        others = others + kept * self.f
        slopes = others[..., None]
        if ratio is not None:
            slopes = ratio.mul_((-weight * self.f)[..., None]).add_(slopes)
        flat = self.probs.mul_(slopes).view(-1)
        flat.index_add_(0, self.at_x.reshape(-1), at_x.reshape(-1))
        flat.index_add_(0, self.at_x0.reshape(-1), at_x0.reshape(-1))

    def _where_nothing_is_true(self) -> Tensor:
        """The probability of all states other than x and x0 whose c is 0."""
        everywhere = (self.probs * self._empty()).sum(-1) if self.law.spread else self.others
        empty = self.law_0 == 0 if self.none is None else (self.law_0 == 0) | self.none
        return (everywhere - self.true * empty).clamp_(min=0.0)

    def _elsewhere(self, values: Tensor, value: float) -> Tensor:
        """``value`` at x, at x0, and at the states whose c is 0."""
        if self.none is not None or self.law.some_empty:
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

    def _excess(self, share: Shares) -> Tensor:
        """What a factor has more than it would have if x0 were known."""
        return (share.others - share.own) * torch.where(self.differs, -self.own, self.others)


def _cost(c: Tensor, excess: Tensor, log_h: Tensor) -> Tensor:
    """h - c + c log(c / h), from h - c where the two are near and from log h where they are not."""
    z = excess / c
    logs = torch.where(z > -0.5, z.log1p(), log_h - c.log())
    return torch.where(c == 0, excess, (z - logs).mul_(c))


def _times_log(c: Tensor, log_h: Tensor) -> Tensor:
    """c log h, and 0 where c is."""
    return (c * log_h).masked_fill_(c == 0, 0.0)


def _times_exp(c: Tensor, exponent: Tensor) -> Tensor:
    """c exp(exponent), and 0 where c is."""
    return (c * exponent.exp()).masked_fill_(c == 0, 0.0)
