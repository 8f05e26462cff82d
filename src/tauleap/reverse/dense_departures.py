"""Departures with matrices, without a product of the posterior with one.

The rate is a mixture over x0 of the rates that would hold if x0 were known, ``R_b(v, x) q(v | x0) / q(x | x0)``. So the
exit rate is a dot product of p with a row of the table

    exit[x, x0] = sum_v R_b(v, x) q(v | x0) / q(x | x0),

made once for a time, and a destination is drawn by drawing x0 with weights ``p(x0) exit[x, x0]``, and then v with
weights ``R_b(v, x) q(v | x0)``. For a few draws that is what is done. For many, each of the two choices is made in two
parts, first a block of 16 states by the sums over blocks, which for x0 come out of the exit rate and for v are a table,
and then a state of the block: 32 numbers are read a choice, and not S.

Near time 1, where jumps are many and ``q(v | x0)`` hardly depends on x0, destinations are drawn by rejection: v comes
from ``R_b(v, x) qmax(v)`` with qmax and qmin the extremes over x0, and is right at once with probability

    qmin(v) qmin(x) / (qmax(v) qmax(x)),

whatever x0 is; in the other cases x0 is drawn from p, and v is kept or drawn again by the true ratio.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.dense_mixture import inverse_table, reachable_probs
from tauleap.reverse.departures import Departures, chunks

_BLOCK = 16
_MANY = 4000  # draws from which on the tables over blocks pay
_LARGEST = 512  # states up to which those tables, with S^3 / 16 entries, are small
_SURE = 0.75  # the share of draws that the extremes must settle for rejection to pay


class DenseDepartures(Departures):
    """``beta`` is the schedule's rate, float64, () or (batch,)."""

    def __init__(
        self, beta: Tensor, kernel: DenseKernel, jump_rates: DenseKernel, x: States, posterior: Posterior
    ) -> None:
        self.beta, self.kernel, self.jump_rates, self.x, self.posterior = beta, kernel, jump_rates, x, posterior
        self.size = kernel.matrix.shape[-1]
        self._sums: Tensor | None = None

    @property
    def exit_rate(self) -> PerSite:
        return self._exit_rate

    @cached_property
    def _exit_rate(self) -> PerSite:
        logits = self.posterior.logits
        beta = along_batch(self.beta, self.x.ndim).to(logits.dtype).to(self.x.device)
        if logits.requires_grad:
            probs = reachable_probs(self.kernel, self.x, self.posterior)
            exits = self.kernel.select(self._exit_table(probs.dtype), self.x)
            return torch.linalg.vecdot(probs, exits) * beta
        rows = logits.reshape(-1, self.size)
        blocks = self._in_blocks
        sums = rows.new_empty(len(rows), self.size // _BLOCK if blocks else 1)
        belongs = _block_indicator(self.size, rows) if blocks else rows.new_ones(self.size, 1)
        totals = rows.new_empty(len(rows))
        for part in chunks(len(rows), self.size, rows.device):
            x, samples = self._where(part)
            # Not divided by their sum yet: that is left for a number a site.
            weights = self._weights(rows[part], x, samples)
            totals[part] = weights.sum(-1)
            weights.mul_(self.kernel.select(self._exit_table(rows.dtype), x, samples))
            torch.mm(weights, belongs, out=sums[part])
        if blocks:
            self._sums = sums
        return (sums.sum(-1) / totals).reshape(self.x.shape).mul_(beta)

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        if len(chosen) >= _MANY and self.kernel.matrix.ndim == 2:
            extremes = _Extremes(self.kernel, self.jump_rates)
            if extremes.settles >= _SURE:
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
        weights = self._weights(logits.to(torch.float64), x, samples)
        x0 = _draw.categorical(weights.mul_(self.kernel.select(self._exit_table(torch.float64), x, samples)), generator)
        onward = self.kernel.select(self.kernel.matrix, x0, samples)
        return _draw.categorical(onward.mul_(self.jump_rates.columns(x, torch.float64)), generator)

    def _by_blocks(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        _ = self.exit_rate
        assert self._sums is not None
        logits, exits = self.posterior.logits.reshape(-1, _BLOCK), self._exit_table(torch.float64).reshape(-1, _BLOCK)
        onward = _Onward(self.kernel, self.jump_rates)
        x, out, number = self.x.reshape(-1).index_select(0, chosen), torch.empty_like(chosen), self.size // _BLOCK
        for part in chunks(len(chosen), 4 * _BLOCK, chosen.device):
            here, where = x[part], chosen[part]
            block = _pick(self._sums.index_select(0, where), generator)
            weights = logits.index_select(0, where.mul(number).add_(block)).to(torch.float64)
            weights.sub_(weights.amax(-1, keepdim=True)).exp_()
            weights.mul_(exits.index_select(0, here.mul(number).add_(block)))
            x0 = block.mul_(_BLOCK).add_(_pick(weights, generator))
            out[part] = onward.draw(here, x0, generator)
        return out

    def _by_rejection(self, chosen: Tensor, extremes: _Extremes, generator: torch.Generator | None) -> Tensor:
        x = self.x.reshape(-1).index_select(0, chosen)
        out = extremes.propose(x, generator)
        chance = _draw.uniforms(x.shape, x.device, generator)
        open_ = (chance >= extremes.sure.view(-1).index_select(0, x * self.size + out)).nonzero().squeeze(-1)
        matrix = self.kernel.matrix
        while len(open_):
            x_, v = x[open_], out[open_]
            x0 = self._draw_clean(chosen[open_], generator)
            true = matrix[x0, v] * extremes.low[x_] / (matrix[x0, x_] * extremes.high[v])
            open_ = open_[chance[open_] >= true]
            out[open_] = extremes.propose(x[open_], generator)
            chance[open_] = _draw.uniforms(open_.shape, x.device, generator)
        return out

    def _draw_clean(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """x0 from p at the chosen sites."""
        rows, out = self.posterior.logits.reshape(-1, self.size), torch.empty_like(chosen)
        for part in chunks(len(chosen), self.size, chosen.device):
            out[part] = _draw.categorical(rows.index_select(0, chosen[part]).softmax(-1), generator)
        return out

    def _weights(self, logits: Tensor, x: Tensor, samples: Tensor | None) -> Tensor:
        """p over the clean states from which x can be reached, up to a factor, of rows of logits."""
        if self.kernel.has_zeros:
            possible = self.kernel.select(inverse_table(self.kernel, torch.float64), x, samples) > 0
            logits = logits.masked_fill(~(possible | ~possible.any(-1, keepdim=True)), -torch.inf)
        return (logits - logits.amax(-1, keepdim=True)).exp_()

    def _where(self, part: slice) -> tuple[Tensor, Tensor | None]:
        """x at the positions of ``part``, and their samples where these have kernels of their own."""
        x = self.x.reshape(-1)[part]
        if self.kernel.matrix.ndim == 2:
            return x, None
        return x, torch.arange(part.start, part.start + len(x), device=x.device) // self.x[:1].numel()

    @property
    def _in_blocks(self) -> bool:
        return self.kernel.matrix.ndim == 2 and self.size % _BLOCK == 0 and 4 * _BLOCK <= self.size <= _LARGEST

    def _exit_table(self, dtype: torch.dtype) -> Tensor:
        matrix = self.kernel.matrix
        return self.kernel.table(
            "exit", dtype, lambda: (matrix @ self.jump_rates.matrix).mT * inverse_table(self.kernel, torch.float64)
        )


class _Onward:
    """Draws of v with weights R_b(v, x) q(v | x0), first a block and then a state of it.

    A block is proposed by the sum of R_b(v, x) over it times the largest q(v | x0) in it, and kept with probability
    true weight over this. Where most proposals fail, as they do where q(v | x0) falls steeply, far from x0 at small
    times, a table of the true weights is made.
    """

    def __init__(self, kernel: DenseKernel, jump_rates: DenseKernel) -> None:
        self.inverse = inverse_table(kernel, torch.float64)
        into = jump_rates.table("columns", torch.float64, lambda: jump_rates.matrix.mT)
        self.size, self.number = len(into), len(into) // _BLOCK
        self.kernel, self.into = kernel.matrix.reshape(-1, _BLOCK), into.reshape(-1, _BLOCK)
        self.largest = self.kernel.amax(-1).reshape(-1, self.number)
        self.sums = self.into.sum(-1).reshape(-1, self.number)
        self.true_sums: Tensor | None = None

    def draw(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        out, left = torch.empty_like(x), torch.arange(len(x), device=x.device)
        while len(left) and self.true_sums is None:
            weights = self.largest.index_select(0, x0).mul_(self.sums.index_select(0, x))
            block = _pick(weights, generator)
            inside = self._inside(x, x0, block)
            bound = weights.gather(-1, block[:, None]).squeeze(-1)
            failed = _draw.uniforms(x.shape, x.device, generator).mul_(bound) >= inside.sum(-1)
            # Those that failed get a state as well, and another when they come again.
            out.index_copy_(0, left, block.mul_(_BLOCK).add_(_pick(inside, generator)))
            again = failed.nonzero().squeeze(-1)
            if 2 * len(again) > len(left):
                self.true_sums = self._true_sums()
            left, x, x0 = (value.index_select(0, again) for value in (left, x, x0))
        if self.true_sums is not None and len(left):
            block = _pick(self.true_sums.index_select(0, x.mul(self.size).add_(x0)), generator)
            inside = self._inside(x, x0, block)
            out.index_copy_(0, left, block.mul_(_BLOCK).add_(_pick(inside, generator)))
        return out

    def _inside(self, x: Tensor, x0: Tensor, block: Tensor) -> Tensor:
        """The weights of the states of the block, (n, 16)."""
        inside = self.kernel.index_select(0, x0.mul(self.number).add_(block))
        return inside.mul_(self.into.index_select(0, x.mul(self.number).add_(block)))

    def _true_sums(self) -> Tensor:
        """sum of R_b(v, x) q(v | x0) / q(x | x0) over each block of v, as rows x S + x0: (S^2, S / 16)."""
        onward = self.kernel.reshape(self.size, -1, _BLOCK).permute(1, 2, 0)  # [block, v, x0]
        into = self.into.reshape(self.size, -1, _BLOCK).transpose(0, 1)  # [block, x, v]
        sums = torch.bmm(into, onward).mul_(self.inverse)  # [block, x, x0]
        return sums.permute(1, 2, 0).to(torch.float32).reshape(self.size**2, -1)


class _Extremes:
    """The extremes over x0 of q(v | x0), and draws of v from R_b(v, x) qmax(v)."""

    def __init__(self, kernel: DenseKernel, jump_rates: DenseKernel) -> None:
        self.low, self.high = torch.aminmax(kernel.matrix, dim=0)
        into = jump_rates.table("columns", torch.float64, lambda: jump_rates.matrix.mT)
        self.cdf = (into * self.high).cumsum(-1)
        steadiness = self.low / self.high
        self.sure = steadiness * steadiness[:, None]  # [x, v]
        share = (into * self.low).sum(-1) * steadiness / self.cdf[:, -1]
        self.settles = float(share.mean()) if bool((self.low > 0).all()) else 0.0

    def propose(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        """By inverse CDF. A table says where to begin: how many sums lie below each multiple of total / S."""
        size = self.cdf.shape[-1]
        u = _draw.uniforms(x.shape, x.device, generator)
        state = self._begin.view(-1).index_select(0, x * size + (u * size).long())
        target = u * self.cdf[:, -1].index_select(0, x)
        target = torch.minimum(target, self._below_total.index_select(0, x))
        # Mostly the state there or the next; the rest, in the tails, is searched for.
        cdf, place = self.cdf.view(-1), x * size + state
        state += cdf.index_select(0, place) <= target
        further = (cdf.index_select(0, x * size + state) <= target).nonzero().squeeze(-1)
        return state.index_copy_(0, further, _draw.first_above(self.cdf, x[further], target[further]))

    @cached_property
    def _below_total(self) -> Tensor:
        total = self.cdf[:, -1].contiguous()
        return torch.nextafter(total, torch.zeros_like(total))

    @cached_property
    def _begin(self) -> Tensor:
        size = self.cdf.shape[-1]
        # A sum counts from the first multiple that is not below it; a little later is a step more, and not wrong.
        first = (self.cdf / self.cdf[:, -1:] * size * (1 + 1e-12)).ceil().long().clamp(max=size)
        counts = torch.zeros(len(self.cdf), size + 1, dtype=torch.int64, device=self.cdf.device)
        return counts.scatter_add_(-1, first, torch.ones_like(first)).cumsum(-1)[:, :size].contiguous()


def _pick(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """A column for each row of weights (n, 16), by inverse CDF in float64: how many running sums are up to u."""
    sums = weights.cumsum(-1, dtype=torch.float64)
    u = _draw.uniforms((len(weights), 1), weights.device, generator)
    return (sums <= u.mul_(1 - 2.0**-52).mul_(sums[:, -1:])).sum(-1)  # u is strictly less than all of it


def _block_indicator(size: int, like: Tensor) -> Tensor:
    """(S, S / 16): which block a state is in."""
    return torch.eye(size // _BLOCK, dtype=like.dtype, device=like.device).repeat_interleave(_BLOCK, dim=0)
