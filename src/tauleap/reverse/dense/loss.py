"""The loss with matrices: value and gradient together, a block of sites at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._chunks import chunks
from tauleap._shapes import States
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import read_extremes
from tauleap.reverse.base import LossRequest, LossResult

if TYPE_CHECKING:
    from tauleap.reverse.dense.rates import DenseExpectation

SMALLEST_IN_FLOAT32 = 1e-18  # of q: p / q times q then stays far inside the range of float32
_RARE = 1e-150  # below it a ratio of two entries may be out of the range of float64
_MARGIN = 1e3  # for the rounding of sums, where numbers near the ends of a dtype are bounded
_BLOCK_ENTRIES = 2**18  # of the logits: intermediate results stay in the cache
_LOG_SPACE_ENTRIES = 2**22


def dense_loss(expectation: DenseExpectation, logits: Tensor, x0: States, request: LossRequest, /) -> LossResult:
    """Return the divergence of every site, or sum_v h_v (the total) and sum_v c_v log h_v (the signal)."""
    rows = logits.reshape(-1, logits.shape[-1])
    x, true = expectation.x.reshape(-1), x0.reshape(-1)
    sites = x0.shape[1:].numel()
    cost = rows.new_empty(len(rows))
    total, signal = (None, None) if request.divergence else (rows.new_empty(len(rows)), rows.new_empty(len(rows)))
    gradient = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device) if request.gradient else None
    for tables, part in _Splitting(expectation, logits, x0).parts():
        found = _Rows(tables, rows[part], x[part], true[part], sites)
        scale, weight = (_column(value, part, sites, found.probs) for value in (expectation.scale, request.weight))
        if request.divergence:
            value, centre = found.divergence()
        else:
            out, known = found.total(), found.known.sum(-1, keepdim=True)
            signal_here = found.signal() + torch.xlogy(known, scale)
            included = out if request.total else torch.zeros_like(out)
            value, centre = included - weight * signal_here, included - weight * known
            if total is not None and signal is not None:
                total[part], signal[part] = (out * scale).squeeze(-1), (signal_here * scale).squeeze(-1)
        cost[part] = (value * scale).squeeze(-1)
        if gradient is not None:
            torch.mul(found.gradient(weight, centre, request.total), scale, out=found.by_ratio)
            gradient[part] = found.by_ratio
    per_site = (None if value is None else value.reshape(x0.shape) for value in (cost, total, signal))
    return LossResult(*per_site, None if gradient is None else gradient.reshape(logits.shape))  # pyright: ignore


class _Tables(NamedTuple):
    """Hold 1 / q_t0(x | x0) at [x, x0], q_s0(v | x0) at [x0, v] and rates_into(v, x) at [x, v], or these per sample."""

    inverse: Tensor
    q_s0: Tensor
    rates_into: Tensor
    zeros: bool
    """Whether a kernel has entries that are 0, or nearly."""
    bounded: bool
    """Whether every c / h is known to be in the range of the dtype."""
    gathered: bool = False
    """Whether ``inverse`` is not a table but the rows of one that the sites need, (n, S)."""


class _Splitting:
    """Hold which rows are processed together, and with which tables."""

    def __init__(self, expectation: DenseExpectation, logits: Tensor, x0: States) -> None:
        self.expectation, self.logits = expectation, logits
        self.sites = logits.shape[1:-1].numel()
        self.least_true = 0.0
        if not _device.is_host(logits.device) and x0.numel():
            # The host waits only here: for the extremes of the kernels and the smallest p(x0 | x) of the true x0.
            true = logits.gather(-1, x0[..., None]).squeeze(-1) - logits.logsumexp(-1)
            self.least_true = read_extremes(
                [expectation.q_t0, expectation.q_s0, expectation.rates_into], true.amin().exp()
            )

    def parts(self) -> Iterator[tuple[_Tables, slice]]:
        rows = self.logits.reshape(-1, self.logits.shape[-1])
        if not self.expectation.per_sample:
            tables = self._tables(slice(None))
            yield from ((tables, part) for part in self._blocks(rows))
            return
        gather = self.expectation.q_t0.prefer_gather(self.expectation.x) and self.expectation.q_s0.prefer_gather(
            self.expectation.x
        )
        for chosen in self._blocks(self.logits):
            if gather:
                yield self._gathered(chosen), slice(chosen.start * self.sites, chosen.stop * self.sites)
                continue
            tables, first = self._tables(chosen), chosen.start * self.sites
            if chosen.stop > chosen.start + 1:
                yield tables, slice(first, chosen.stop * self.sites)
                continue
            own_tables = tables._replace(
                **{name: _first(getattr(tables, name)) for name in ("inverse", "q_s0", "rates_into")}
            )
            for part in self._blocks(rows[first : first + self.sites]):
                yield own_tables, slice(first + part.start, first + part.stop)

    def _blocks(self, rows: Tensor) -> Iterator[slice]:
        return chunks(len(rows), rows[:1].numel(), rows.device, _BLOCK_ENTRIES, at_most=True)

    def _tables(self, chosen: slice) -> _Tables:
        """Return the tables of the chosen samples: in float32 if their kernels allow it."""
        expectation, logits = self.expectation, self.logits
        extremes = self._extremes[chosen] if expectation.q_t0.matrix.ndim == 3 else self._extremes
        dtype = logits.dtype if min(smallest for smallest, _ in extremes) >= SMALLEST_IN_FLOAT32 else torch.float64

        def here(table: Tensor) -> Tensor:
            return (table[chosen] if table.ndim == 3 else table).to(dtype).to(logits.device)

        q_s0 = torch.nn.functional.hardshrink(here(expectation.q_s0.matrix), torch.finfo(dtype).tiny)
        rates_into = here(_into_table(expectation.rates_into, dtype))
        inverse = here(expectation.q_t0.inverse_table(torch.float64))
        least = 0.0 if expectation.q_s0.has_zeros else expectation.q_s0.smallest
        zeros = _nearly_zero(extremes) or least < max(_RARE, torch.finfo(dtype).tiny)
        return _Tables(inverse, q_s0, rates_into, zeros, self._bounded(dtype))

    def _gathered(self, chosen: slice) -> _Tables:
        """Return tables for kernels that are read in few places: in float64, as casting all entries costs more."""
        expectation, device = self.expectation, self.logits.device
        rows = slice(chosen.start * self.sites, chosen.stop * self.sites)
        inverse = self._inverse[rows]
        q_s0 = expectation.q_s0.matrix[chosen]
        extremes = [(kernel.smallest, kernel.has_zeros) for kernel in (expectation.q_t0, expectation.q_s0)]
        rates_into = _into_table(expectation.rates_into, torch.float64)
        rates_into = (rates_into[chosen] if rates_into.ndim == 3 else rates_into).to(device)
        bounded = self._bounded(torch.float64)
        return _Tables(inverse, q_s0.to(device), rates_into, _nearly_zero(extremes), bounded, gathered=True)

    def _bounded(self, dtype: torch.dtype) -> bool:
        """Return whether every c / h is in range: as h >= p(x0) c, at most 1 / p(x0), unless p(x0) q underflows."""
        if not self.least_true > 0:  # on the CPU, where reading a value is free; also for NaN
            return False
        no_underflow = self.least_true * self.expectation.q_s0.smallest > _MARGIN * torch.finfo(dtype).tiny
        return no_underflow and _MARGIN * self.expectation.rates_into.largest < _large(dtype) * self.least_true

    @cached_property
    def _inverse(self) -> Tensor:
        return self.expectation.q_t0.inverse_columns(self.expectation.x, torch.float64).reshape(
            -1, self.logits.shape[-1]
        )

    @cached_property
    def _extremes(self) -> list[tuple[float, bool]]:
        """For each matrix of ``q_t0``, its smallest positive entry and whether it has zeros."""
        return self.expectation.q_t0.extremes


def _nearly_zero(extremes: list[tuple[float, bool]]) -> bool:
    return any(zeros or smallest < _RARE for smallest, zeros in extremes)


class _Rows:
    """Compute the loss of some sites, one row each.

    ``ratio`` is sum_x0 p(x0) q_s0(v | x0) / q_t0(x | x0), and ``true_ratio`` the same if x0 were known. So h is
    ``rates_into * ratio`` and c is ``known = rates_into * true_ratio``, both without the scale.
    """

    def __init__(self, tables: _Tables, logits: Tensor, x: Tensor, true: Tensor, sites: int) -> None:
        self.tables, self.x, self.sites = tables, x, sites
        self.logits = logits.to(tables.q_s0.dtype)
        inverse = self._inverse_rows()
        if tables.zeros:
            possible = inverse > 0
            possible |= ~possible.any(-1, keepdim=True)  # no x0 leads to x: any distribution will do
            self.logits = self.logits.masked_fill(~possible, -torch.inf)
        self.probs = self.logits.softmax(-1)
        true_inverse = inverse.gather(-1, true[:, None])
        self.weighed = inverse * self.probs if tables.gathered else inverse.mul_(self.probs)
        self.ratio = self._product(self.weighed, tables.q_s0)
        self.rates_into = self._take(tables.rates_into, x)
        self.true_ratio = self._take(tables.q_s0, true).mul_(true_inverse)
        self.known = self.true_ratio * self.rates_into
        self.by_ratio = self.known / self.ratio  # the derivative of sum_v c_v log h_v
        self.nothing = self.known == 0 if tables.zeros else None
        if self.nothing is not None:
            self.by_ratio.masked_fill_(self.nothing, 0.0)
        self.underflow = self._underflown()

    def total(self) -> Tensor:
        """Return sum_v h_v."""
        return torch.linalg.vecdot(self.rates_into, self.ratio)[:, None]

    def signal(self) -> Tensor:
        """Return sum_v c_v log h_v."""
        # The product may be too small for its dtype where neither factor is, hence two logarithms. The one of the
        # rates is taken once per pair of states instead of once per site.
        logs = self.ratio.log().masked_fill_(self.known == 0, 0.0)
        if self.underflow is not None:
            logs[self.underflow.where] = self.underflow.logs
        log_rates = self._take(torch.xlogy(self.tables.rates_into, self.tables.rates_into), self.x)
        return (torch.linalg.vecdot(self.known, logs) + torch.linalg.vecdot(self.true_ratio, log_rates))[:, None]

    def divergence(self) -> tuple[Tensor, Tensor]:
        """Return sum_v h_v - c_v + c_v log(c_v / h_v), term by term so that no large numbers cancel, and
        sum_v h_v - c_v."""
        quotient = self.ratio / self.true_ratio
        if self.nothing is not None:
            quotient.masked_fill_(self.nothing, 1.0)
        logs = quotient.log()
        if self.underflow is not None:
            logs[self.underflow.where] = self.underflow.logs - self.true_ratio[self.underflow.where].log()
        quotient.sub_(1)
        excess = torch.linalg.vecdot(self.known, quotient)
        cost = torch.linalg.vecdot(self.known, quotient.sub_(logs))
        if self.nothing is not None:
            unexpected = torch.linalg.vecdot(self.rates_into * self.nothing, self.ratio)
            cost, excess = cost + unexpected, excess + unexpected
        return cost[:, None], excess[:, None]

    def gradient(self, weight: Tensor, centre: Tensor, total: bool) -> Tensor:
        """Return the gradient of ``[total] - weight signal`` by the logits; ``centre`` is its mean over p(x0)."""
        underflow = self.underflow
        fractions = (
            None if underflow is None else underflow.fractions * (self.known * -weight)[underflow.where][:, None]
        )
        slopes = self.by_ratio.mul_(-weight)
        if total:
            slopes.add_(self.rates_into)
        out = self._product(slopes, self.tables.q_s0.mT).mul_(self.weighed)
        out.addcmul_(self.probs, centre, value=-1)
        return out if underflow is None or fractions is None else out.index_add_(0, underflow.where[0], fractions)

    def _inverse_rows(self, rows: Tensor | None = None) -> Tensor:
        """Return 1 / q_t0(x | .), of all rows or of the given ones."""
        if self.tables.gathered:
            return self.tables.inverse if rows is None else self.tables.inverse.index_select(0, rows)
        return self._take(self.tables.inverse, self.x if rows is None else self.x[rows], rows)

    def _take(self, table: Tensor, states: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return row ``states[i]`` of the table, or of the table of row i's (``rows[i]``'s) sample."""
        if table.ndim == 3:
            rows = torch.arange(states.shape[0], device=states.device) if rows is None else rows
            states = torch.add(states, rows // self.sites, alpha=table.shape[1])
        return table.reshape(-1, table.shape[-1]).index_select(0, states)

    def _product(self, rows: Tensor, matrix: Tensor) -> Tensor:
        if matrix.ndim == 2:
            return rows @ matrix
        return torch.bmm(rows.view(matrix.shape[0], -1, rows.shape[-1]), matrix).view(rows.shape)

    def _underflown(self) -> _Underflow | None:
        """Return the entries at which c / h is out of range, as where h is 0 and c is not; None if there are none."""
        large = _large(self.by_ratio.dtype)
        if self.tables.bounded or self.by_ratio.numel() == 0 or bool(self.by_ratio.amax() < large):
            return None
        row, state = (~(self.by_ratio < large)).nonzero().unbind(-1)
        self.by_ratio[row, state] = 0.0
        log_q_s0 = self.tables.q_s0.mT.log().contiguous()
        block = max(1, _LOG_SPACE_ENTRIES // self.probs.shape[-1])
        logs, fractions = [], []
        for some, at in zip(row.split(block), state.split(block), strict=True):
            log_inverse = self._inverse_rows(some).log()
            terms = self.logits[some].log_softmax(-1) + self._take(log_q_s0, at, some) + log_inverse
            terms = terms.masked_fill(log_inverse == -torch.inf, -torch.inf)
            logs.append(terms.logsumexp(-1))
            fractions.append(terms.softmax(-1))
        return _Underflow((row, state), torch.cat(logs), torch.cat(fractions))


def _large(dtype: torch.dtype) -> float:
    """Return the number from which on products may be out of the range of the dtype."""
    return torch.finfo(dtype).max ** 0.5


class _Underflow(NamedTuple):
    """Compute ratios in log space that are too small for their dtype."""

    where: tuple[Tensor, Tensor]
    logs: Tensor
    fractions: Tensor
    """The fraction that each x0 contributes to each of these ratios, (n, S)."""


def _column(value: Tensor | None, part: slice, sites: int, like: Tensor) -> Tensor:
    """Return a number for all samples, or one per sample, as a column that broadcasts with the rows of ``part``."""
    if value is None:
        return like.new_ones(1, 1)
    here = value.device == like.device
    value = value.to(like.dtype) if here else _device.moved_to(value, like.device, like.dtype)
    if value.ndim == 0:
        return value.reshape(1, 1)
    return value[:, None].expand(-1, sites).reshape(-1, 1)[part]


def _first(table: Tensor) -> Tensor:
    return table[0] if table.ndim == 3 else table


def _into_table(kernel: DenseKernel, dtype: torch.dtype) -> Tensor:
    """Return the rates into x at [x, v] without those that are negligible: subnormal numbers slow down arithmetic."""

    def make() -> Tensor:
        columns = kernel.matrix.mT.to(dtype)
        return torch.where(columns > columns.amax() * torch.finfo(dtype).tiny ** 0.8, columns, 0.0)

    return kernel.table("into", dtype, make)
