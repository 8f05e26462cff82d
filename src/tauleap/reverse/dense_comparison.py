"""A mixture with matrices against the truth: value and gradient together, a block of sites at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import PerState, States
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import read_extremes
from tauleap.reverse.mixture import Wanted, Worked, blocks

if TYPE_CHECKING:
    from tauleap.reverse.dense_mixture import DenseMixture

SMALLEST_IN_FLOAT32 = 1e-18  # from here on p / q times q stays far inside the range of float32
_RARE = 1e-150  # below it a ratio of two entries may be beyond float64
_MARGIN = 1e3  # for the rounding of sums, wherever numbers near the ends of a dtype are bounded
_BLOCK_ENTRIES = 2**18  # of the logits: what is made on the way stays in the cache
_LOG_SPACE_ENTRIES = 2**22


def compare(mixture: DenseMixture, logits: Tensor, x0: States, wanted: Wanted) -> Worked:
    """The divergence, or the total and the signal, of every site."""
    rows = logits.reshape(-1, logits.shape[-1])
    x, true = mixture.x.reshape(-1), x0.reshape(-1)
    sites = x0.shape[1:].numel()
    cost = rows.new_empty(len(rows))
    total, signal = (None, None) if wanted.divergence else (rows.new_empty(len(rows)), rows.new_empty(len(rows)))
    gradient = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if wanted.gradient else None
    for tables, part in _Splitting(mixture, logits, x0).parts():
        found = _Rows(tables, rows[part], x[part], true[part], sites)
        scale, weight = (_column(value, part, sites, found.probs) for value in (mixture.scale, wanted.weight))
        if wanted.divergence:
            value, centre = found.divergence()
        else:
            out, known = found.total(), found.known.sum(-1, keepdim=True)
            told = found.signal() + torch.xlogy(known, scale)
            kept = out if wanted.total else torch.zeros_like(out)
            value, centre = kept - weight * told, kept - weight * known
            if total is not None and signal is not None:
                total[part], signal[part] = (out * scale).squeeze(-1), (told * scale).squeeze(-1)
        cost[part] = (value * scale).squeeze(-1)
        if gradient is not None:
            torch.mul(found.gradient(weight, centre, wanted.total), scale, out=found.by_ratio)
            gradient[part] = found.by_ratio
    per_site = (None if value is None else value.reshape(x0.shape) for value in (cost, total, signal))
    return Worked(*per_site, None if gradient is None else gradient.reshape(logits.shape))  # pyright: ignore


class _Tables(NamedTuple):
    """1 / over(x | x0) at [x, x0], onward(v | x0) at [x0, v] and into(v, x) at [x, v]: (S, S) or one a sample."""

    inverse: Tensor
    onward: Tensor
    into: Tensor
    zeros: bool
    """Whether a kernel has entries that are 0, or nearly."""
    bounded: bool
    """Whether no c / h is beyond measure for sure, so that nobody has to look."""
    gathered: bool = False
    """Whether ``inverse`` is not a table but what was read of one, (n, S), a row for each site."""


class _Splitting:
    """Which rows are worked on together, and with which tables."""

    def __init__(self, mixture: DenseMixture, logits: Tensor, x0: States) -> None:
        self.mixture, self.logits = mixture, logits
        self.sites = logits.shape[1:-1].numel()
        self.least_true = 0.0
        if not _device.is_host(logits.device) and x0.numel():
            # The one time that the host waits: for the extremes of the kernels and the smallest p(x0 | x) of the truth.
            true = logits.gather(-1, x0[..., None]).squeeze(-1) - logits.logsumexp(-1)
            self.least_true = read_extremes([mixture.over, mixture.onward, mixture.into], true.amin().exp())

    def parts(self) -> Iterator[tuple[_Tables, slice]]:
        rows = self.logits.reshape(-1, self.logits.shape[-1])
        if not self.mixture.per_sample:
            tables = self._tables(slice(None))
            yield from ((tables, part) for part in blocks(rows, _BLOCK_ENTRIES))
            return
        few = self.mixture.over.few(self.mixture.x) and self.mixture.onward.few(self.mixture.x)
        for chosen in blocks(self.logits, _BLOCK_ENTRIES):
            if few:
                yield self._gathered(chosen), slice(chosen.start * self.sites, chosen.stop * self.sites)
                continue
            tables, first = self._tables(chosen), chosen.start * self.sites
            if chosen.stop > chosen.start + 1:
                yield tables, slice(first, chosen.stop * self.sites)
                continue
            alone = tables._replace(**{name: _first(getattr(tables, name)) for name in ("inverse", "onward", "into")})
            for part in blocks(rows[first : first + self.sites], _BLOCK_ENTRIES):
                yield alone, slice(first + part.start, first + part.stop)

    def _tables(self, chosen: slice) -> _Tables:
        """What the chosen samples need: in float32 where their kernels allow it."""
        mixture, logits = self.mixture, self.logits
        extremes = self._extremes[chosen] if mixture.over.matrix.ndim == 3 else self._extremes
        dtype = logits.dtype if min(smallest for smallest, _ in extremes) >= SMALLEST_IN_FLOAT32 else torch.float64

        def here(table: Tensor) -> Tensor:
            return (table[chosen] if table.ndim == 3 else table).to(dtype).to(logits.device)

        onward = torch.nn.functional.hardshrink(here(mixture.onward.matrix), torch.finfo(dtype).tiny)
        into = here(_into_table(mixture.into, dtype))
        inverse = here(inverse_table(mixture.over, torch.float64))
        least = 0.0 if mixture.onward.has_zeros else mixture.onward.smallest
        zeros = _nearly_zero(extremes) or least < max(_RARE, torch.finfo(dtype).tiny)
        return _Tables(inverse, onward, into, zeros, self._bounded(dtype))

    def _gathered(self, chosen: slice) -> _Tables:
        """Where the samples' kernels are read at few places: in float64, as casting them all would cost more."""
        mixture, device = self.mixture, self.logits.device
        rows = slice(chosen.start * self.sites, chosen.stop * self.sites)
        inverse = self._inverse[rows]
        onward = mixture.onward.matrix[chosen]
        into = _into_table(mixture.into, torch.float64)
        into = (into[chosen] if into.ndim == 3 else into).to(device)
        extremes = [(kernel.smallest, kernel.has_zeros) for kernel in (mixture.over, mixture.onward)]
        bounded = self._bounded(torch.float64)
        return _Tables(inverse, onward.to(device), into, _nearly_zero(extremes), bounded, gathered=True)

    def _bounded(self, dtype: torch.dtype) -> bool:
        """Whether every c / h is a number: as h >= p(x0) c, it is at most 1 / p(x0) unless p(x0) q underflows."""
        if not self.least_true > 0:  # on the CPU, where a look costs nothing; also for NaN
            return False
        kept = self.least_true * self.mixture.onward.smallest > _MARGIN * torch.finfo(dtype).tiny
        return kept and _MARGIN * self.mixture.into.largest < _large(dtype) * self.least_true

    @cached_property
    def _inverse(self) -> Tensor:
        return inverse_at(self.mixture.over, self.mixture.x, torch.float64).reshape(-1, self.logits.shape[-1])

    @cached_property
    def _extremes(self) -> list[tuple[float, bool]]:
        """For each kernel ``over`` its smallest entry that is not 0, and whether it has zeros."""
        return self.mixture.over.extremes


def _nearly_zero(extremes: list[tuple[float, bool]]) -> bool:
    return any(zeros or smallest < _RARE for smallest, zeros in extremes)


class _Rows:
    """Some sites, a row for each.

    ``ratio`` is sum_x0 p(x0) onward(v | x0) / over(x | x0) and ``true_ratio`` what it would be if x0 were known, so
    that h is ``into * ratio`` and the truth, c, is ``known = into * true_ratio``; without the scale.
    """

    def __init__(self, tables: _Tables, logits: Tensor, x: Tensor, true: Tensor, sites: int) -> None:
        self.tables, self.x, self.sites = tables, x, sites
        self.logits = logits.to(tables.onward.dtype)
        over = self._over()
        if tables.zeros:
            possible = over > 0
            possible |= ~possible.any(-1, keepdim=True)  # where x cannot be, any law will do
            self.logits = self.logits.masked_fill(~possible, -torch.inf)
        self.probs = self.logits.softmax(-1)
        true_over = over.gather(-1, true[:, None])
        self.weighed = over * self.probs if tables.gathered else over.mul_(self.probs)
        self.ratio = self._product(self.weighed, tables.onward)
        self.into = self._take(tables.into, x)
        self.true_ratio = self._take(tables.onward, true).mul_(true_over)
        self.known = self.true_ratio * self.into
        self.by_ratio = self.known / self.ratio  # the derivative of sum_v c_v log h_v
        self.nothing = self.known == 0 if tables.zeros else None
        if self.nothing is not None:
            self.by_ratio.masked_fill_(self.nothing, 0.0)
        self.lost = self._underflown()

    def total(self) -> Tensor:
        """sum_v h_v."""
        return torch.linalg.vecdot(self.into, self.ratio)[:, None]

    def signal(self) -> Tensor:
        """sum_v c_v log h_v."""
        # Not the log of the product, which may be too small for its dtype where neither factor is. That of ``into`` is
        # taken once for every pair of states, and not for every site.
        logs = self.ratio.log().masked_fill_(self.known == 0, 0.0)
        if self.lost is not None:
            logs[self.lost.where] = self.lost.logs
        of_into = self._take(torch.xlogy(self.tables.into, self.tables.into), self.x)
        return (torch.linalg.vecdot(self.known, logs) + torch.linalg.vecdot(self.true_ratio, of_into))[:, None]

    def divergence(self) -> tuple[Tensor, Tensor]:
        """sum_v h_v - c_v + c_v log(c_v / h_v), every term on its own so that no large numbers cancel, and
        sum_v h_v - c_v."""
        times = self.ratio / self.true_ratio
        if self.nothing is not None:
            times.masked_fill_(self.nothing, 1.0)
        logs = times.log()
        if self.lost is not None:
            logs[self.lost.where] = self.lost.logs - self.true_ratio[self.lost.where].log()
        times.sub_(1)
        excess = torch.linalg.vecdot(self.known, times)
        cost = torch.linalg.vecdot(self.known, times.sub_(logs))
        if self.nothing is not None:
            unexpected = torch.linalg.vecdot(self.into * self.nothing, self.ratio)
            cost, excess = cost + unexpected, excess + unexpected
        return cost[:, None], excess[:, None]

    def gradient(self, weight: Tensor, centre: Tensor, total: bool) -> Tensor:
        """By the logits, of ``[total] - weight signal``; ``centre`` is sum_x0 p(x0) times that by p(x0)."""
        lost = self.lost
        shares = None if lost is None else lost.shares * (self.known * -weight)[lost.where][:, None]
        slopes = self.by_ratio.mul_(-weight)
        if total:
            slopes.add_(self.into)
        out = self._product(slopes, self.tables.onward.mT).mul_(self.weighed)
        out.addcmul_(self.probs, centre, value=-1)
        return out if lost is None or shares is None else out.index_add_(0, lost.where[0], shares)

    def _over(self, rows: Tensor | None = None) -> Tensor:
        """1 / over(x | .), of all rows or of these."""
        if self.tables.gathered:
            return self.tables.inverse if rows is None else self.tables.inverse.index_select(0, rows)
        return self._take(self.tables.inverse, self.x if rows is None else self.x[rows], rows)

    def _take(self, table: Tensor, states: Tensor, rows: Tensor | None = None) -> Tensor:
        """Row ``states[i]`` of the table, of the sample of row i (or ``rows[i]``) where every sample has its own."""
        if table.ndim == 3:
            rows = torch.arange(states.shape[0], device=states.device) if rows is None else rows
            states = torch.add(states, rows // self.sites, alpha=table.shape[1])
        return table.reshape(-1, table.shape[-1]).index_select(0, states)

    def _product(self, rows: Tensor, matrix: Tensor) -> Tensor:
        if matrix.ndim == 2:
            return rows @ matrix
        return torch.bmm(rows.view(matrix.shape[0], -1, rows.shape[-1]), matrix).view(rows.shape)

    def _underflown(self) -> _Lost | None:
        """The entries at which c / h is beyond measure, as where h is 0 and c is not; None if there are none."""
        large = _large(self.by_ratio.dtype)
        if self.tables.bounded or self.by_ratio.numel() == 0 or bool(self.by_ratio.amax() < large):
            return None
        row, state = (~(self.by_ratio < large)).nonzero().unbind(-1)
        self.by_ratio[row, state] = 0.0
        log_onward = self.tables.onward.mT.log().contiguous()
        block = max(1, _LOG_SPACE_ENTRIES // self.probs.shape[-1])
        logs, shares = [], []
        for some, at in zip(row.split(block), state.split(block), strict=True):
            log_over = self._over(some).log()
            terms = self.logits[some].log_softmax(-1) + self._take(log_onward, at, some) + log_over
            terms = terms.masked_fill(log_over == -torch.inf, -torch.inf)
            logs.append(terms.logsumexp(-1))
            shares.append(terms.softmax(-1))
        return _Lost((row, state), torch.cat(logs), torch.cat(shares))


def _large(dtype: torch.dtype) -> float:
    """From here on a number, or its product with another, may be beyond the dtype."""
    return torch.finfo(dtype).max ** 0.5


class _Lost(NamedTuple):
    """Ratios too small for their dtype, worked out in log space."""

    where: tuple[Tensor, Tensor]
    logs: Tensor
    shares: Tensor
    """Of each x0 in each of these ratios, (n, S)."""


def _column(value: Tensor | None, part: slice, sites: int, like: Tensor) -> Tensor:
    """A number for all samples, or one for each, as a column that meets the rows of ``part``."""
    if value is None:
        return like.new_ones(1, 1)
    value = _device.moved_to(value, like.device, like.dtype)
    if value.ndim == 0:
        return value.reshape(1, 1)
    return value[:, None].expand(-1, sites).reshape(-1, 1)[part]


def _first(table: Tensor) -> Tensor:
    return table[0] if table.ndim == 3 else table


def inverse_table(kernel: DenseKernel, dtype: torch.dtype) -> Tensor:
    """1 / q(x | x0) at [x, x0], 0 where x cannot be reached."""
    return kernel.table("inverse", dtype, lambda: _inverse(kernel.matrix.mT, kernel.may_have_zeros))


def inverse_at(kernel: DenseKernel, x: States, dtype: torch.dtype) -> PerState:
    """Its rows at the states x, without the table where few are read."""
    if kernel.few(x):
        return _inverse(kernel.columns(x, torch.float64), kernel.may_have_zeros).to(dtype)
    return kernel.select(inverse_table(kernel, dtype), x)


def _inverse(values: Tensor, has_zeros: bool) -> Tensor:
    return torch.where(values > 0, 1 / values, 0.0) if has_zeros else 1 / values


def _into_table(kernel: DenseKernel, dtype: torch.dtype) -> Tensor:
    """The rates into x at [x, v], without those that are too small to count beside the others: they would only slow
    down the arithmetic, as they lead to subnormals."""

    def make() -> Tensor:
        columns = kernel.matrix.mT.to(dtype)
        return torch.where(columns > columns.amax() * torch.finfo(dtype).tiny ** 0.8, columns, 0.0)

    return kernel.table("into", dtype, make)
