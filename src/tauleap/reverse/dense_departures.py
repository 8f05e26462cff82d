"""Departures with matrices, without a product of the posterior with one.

The rate is a mixture over x0 of the rates that would hold if x0 were known, ``R_b(v, x) q(v | x0) / q(x | x0)``. So the
exit rate is a dot product of p with a row of the table

    exit[x, x0] = sum_v R_b(v, x) q(v | x0) / q(x | x0),

made once for a time, and a destination is drawn by drawing x0 with weights ``p(x0) exit[x, x0]``, and then v with
weights ``R_b(v, x) q(v | x0)``. For a few draws that is what is done. For many, x0 is chosen in two parts, first a
block of 16 states by the sums over blocks, which come out of the exit rate, and then a state of the block: 32 numbers
are read, and not S; v is left to ``onward``.

Near time 1, where jumps are many and ``q(v | x0)`` hardly depends on x0, destinations are drawn by rejection: v comes
from ``R_b(v, x) qmax(v)`` with qmax and qmin the extremes over x0, and is right at once with probability

    qmin(v) qmin(x) / (qmax(v) qmax(x)),

whatever x0 is; in the other cases x0 is drawn from p, and v is kept or drawn again by the true ratio.

A step to an earlier time is of the same form, with the kernels to that time and from it in the places of q and R.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tauleap import _device, _draw
from tauleap._chunks import chunks
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.dense_mixture import inverse_table, reachable_probs
from tauleap.reverse.departures import Departures
from tauleap.reverse.inverse_cdf import InverseCdf
from tauleap.reverse.onward import BLOCK as ONWARD_BLOCK
from tauleap.reverse.onward import Onward

_MANY = 4000  # draws from which on the tables over blocks pay
_BLOCK = 16  # states: a choice of x0 is quickest as one among S / 16 and one among 16
_LARGEST = 512  # states up to which tables with S^3 / 32 entries are small
_SURE = 0.75  # the share of draws that the extremes must settle for rejection to pay


class DenseDepartures(Departures):
    """Weights ``scale into(v, x) sum_x0 p(x0) onward(v | x0) / over(x | x0)`` for v != x, where into(x, x) is 0.

    For reverse rates ``over`` and ``onward`` are the kernel from 0 to t and ``into`` the jump rates; for a step to s,
    ``onward`` leads from 0 to s and ``into`` from s to t. ``scale`` is float64, () or (batch,). Tables that follow from
    several of them are kept with ``keeper``, which must be met in this combination alone: q_t for rates, but what leads
    from s to t for a step, as other steps lead to s too.
    """

    def __init__(
        self,
        x: States,
        posterior: Posterior,
        over: DenseKernel,
        onward: DenseKernel,
        into: DenseKernel,
        scale: Tensor,
        keeper: DenseKernel,
    ) -> None:
        self.x, self.posterior, self.scale, self.keeper = x, posterior, scale, keeper
        self.over, self.onward, self.into = over, onward, into
        self.size = over.matrix.shape[-1]

    @property
    def exit_rate(self) -> PerSite:
        return self._exit_rate

    @cached_property
    @full_precision
    def _exit_rate(self) -> PerSite:
        logits = self.posterior.logits
        scale = _device.moved_to(along_batch(self.scale, self.x.ndim), self.x.device, logits.dtype)
        if logits.requires_grad:
            probs = reachable_probs(self.over, self.x, self.posterior)
            exits = self.over.select(self._exit_table(probs.dtype), self.x)
            return torch.linalg.vecdot(probs, exits) * scale
        return self._sums.sum(-1).reshape(self.x.shape).mul_(scale)

    @cached_property
    def _sums(self) -> Tensor:
        """p(x0) exit[x, x0] summed over each block of x0, (sites, S / 16), or over all of them, (sites, 1)."""
        rows = self.posterior.logits.detach().reshape(-1, self.size)
        width = _BLOCK if self._in_blocks else self.size
        out, ones = rows.new_empty(len(rows), self.size // width), rows.new_ones(width)
        for part in chunks(len(rows), self.size, rows.device):
            x, samples = self._where(part)
            weights = self._reachable(rows[part], x, samples).softmax(-1)
            weights.mul_(self.over.select(self._exit_table(rows.dtype), x, samples))
            torch.mv(weights.view(-1, width), ones, out=out[part].view(-1))
        return out

    @full_precision
    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        if len(chosen) >= _MANY and self.over.matrix.ndim == 2:
            extremes = _Extremes(self.over, self.onward, self.into) if _may_settle(self.over) else None
            if extremes is not None and extremes.settles >= _SURE:
                return self._by_rejection(chosen, extremes, generator)
            if self._in_blocks:
                return self._by_blocks(chosen, generator)
        out = torch.empty_like(chosen)
        for part in chunks(len(chosen), self.size, chosen.device):
            out[part] = self._by_rows(chosen[part], generator)
        return out

    def _by_rows(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        x, samples = self.x.reshape(-1)[chosen], chosen // self.x[:1].numel()
        logits = self.posterior.logits.reshape(-1, self.size).index_select(0, chosen)
        weights = self._reachable(logits.to(torch.float64), x, samples).softmax(-1)
        x0 = _draw.categorical(weights.mul_(self.over.select(self._exit_table(torch.float64), x, samples)), generator)
        weights = self.onward.select(self.onward.matrix, x0, samples)
        into = self.into.table("columns", torch.float64, lambda: self.into.matrix.mT)
        return _draw.categorical(weights.mul_(self.into.select(into, x, samples)), generator)

    def _by_blocks(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        logits = self.posterior.logits.detach().reshape(-1, _BLOCK)
        exits, number = self._exit_table(logits.dtype).reshape(-1, _BLOCK), self.size // _BLOCK
        x, x0 = self.x.reshape(-1).index_select(0, chosen), torch.empty_like(chosen)
        for part in chunks(len(chosen), 2 * _BLOCK, chosen.device):
            here, where = x[part], chosen[part]
            block = _draw.categorical(self._sums.index_select(0, where), generator)
            away = exits.index_select(0, here.mul(number).add_(block))
            weights = logits.index_select(0, where.mul(number).add_(block))
            if self.over.has_zeros:
                weights.masked_fill_(away == 0, -torch.inf)  # not possible, and so not to be measured against
            weights = weights.softmax(-1).mul_(away)
            x0[part] = block.mul_(_BLOCK).add_(_draw.categorical(weights, generator))
        return Onward(self.onward, self.into, self._totals()).draw(x, x0, generator)

    def _by_rejection(self, chosen: Tensor, extremes: _Extremes, generator: torch.Generator | None) -> Tensor:
        x = self.x.reshape(-1).index_select(0, chosen)
        out = extremes.proposals.draw(x, generator)
        chance = _draw.uniforms(x.shape, x.device, generator)
        open_ = (chance >= extremes.sure.view(-1).index_select(0, x * self.size + out)).nonzero().squeeze(-1)
        onward, over = self.onward.matrix, self.over.matrix
        while len(open_):
            x_, v = x[open_], out[open_]
            x0 = self._draw_clean(chosen[open_], generator)
            true = onward[x0, v] * extremes.least[x_] / (over[x0, x_] * extremes.most[v])
            open_ = open_[chance[open_] >= true]
            out[open_] = extremes.proposals.draw(x[open_], generator)
            chance[open_] = _draw.uniforms(open_.shape, x.device, generator)
        return out

    def _draw_clean(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """x0 from p at the chosen sites."""
        rows, out = self.posterior.logits.reshape(-1, self.size), torch.empty_like(chosen)
        for part in chunks(len(chosen), self.size, chosen.device):
            out[part] = _draw.categorical(rows.index_select(0, chosen[part]).softmax(-1), generator)
        return out

    def _reachable(self, logits: Tensor, x: Tensor, samples: Tensor | None) -> Tensor:
        """Rows of logits, without the clean states from which x cannot be reached."""
        if not self.over.has_zeros:
            return logits
        possible = self.over.select(inverse_table(self.over, torch.float64), x, samples) > 0
        return logits.masked_fill(~(possible | ~possible.any(-1, keepdim=True)), -torch.inf)

    def _where(self, part: slice) -> tuple[Tensor, Tensor | None]:
        """x at the positions of ``part``, and their samples where these have kernels of their own."""
        x = self.x.reshape(-1)[part]
        if self.over.matrix.ndim == 2:
            return x, None
        return x, torch.arange(part.start, part.start + len(x), device=x.device) // self.x[:1].numel()

    @property
    def _in_blocks(self) -> bool:
        return self.over.matrix.ndim == 2 and self.size % ONWARD_BLOCK == 0 and 4 * _BLOCK <= self.size <= _LARGEST

    def _totals(self) -> Tensor:
        """sum_v onward(v | x0) into(v, x) at [x0, x]."""
        return self.keeper.table("totals", torch.float64, lambda: self.onward.matrix @ self.into.matrix)

    def _exit_table(self, dtype: torch.dtype) -> Tensor:
        """exit[x, x0]: what leads away in all if x0 were known."""

        def make() -> Tensor:
            exits = self._totals() / self.over.matrix
            return (exits.masked_fill_(self.over.matrix == 0, 0.0) if self.over.has_zeros else exits).mT

        return self.keeper.table("exit", dtype, make)


def _may_settle(over: DenseKernel) -> bool:
    """Whether ``_Extremes`` may settle enough draws: a bound from the first and the last x0 alone, which costs nothing.

    What settles a draw is at most the mean over x of the least over(x | x0) over the largest.
    """
    ends = over.matrix[[0, -1]]
    least, largest = torch.aminmax(ends, dim=0)
    return float((least / torch.where(largest > 0, largest, 1.0)).mean()) >= _SURE


class _Extremes:
    """The extremes over x0 of onward(v | x0) and over(x | x0), and draws of v from into(v, x) most(v)."""

    def __init__(self, over: DenseKernel, onward: DenseKernel, into: DenseKernel) -> None:
        self.least, largest = torch.aminmax(over.matrix, dim=0)
        smallest, self.most = torch.aminmax(onward.matrix, dim=0)
        rates = into.table("columns", torch.float64, lambda: into.matrix.mT)
        self.cdf = (rates * self.most).cumsum(-1)
        # Where x can always be reached and v can be, x0 can be left open with this probability, [x, v].
        steady = self.least / largest
        self.sure = smallest / torch.where(self.most > 0, self.most, 1.0) * steady[:, None]
        total = self.cdf[:, -1]
        share = (rates * smallest).sum(-1) * steady / torch.where(total > 0, total, 1.0)
        self.settles = float(share.mean()) if bool((self.least > 0).all()) else 0.0

    @cached_property
    def proposals(self) -> InverseCdf:
        return InverseCdf(self.cdf, InverseCdf.where_to_begin(self.cdf))
