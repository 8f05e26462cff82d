"""Many draws of a destination v for which x and x0 are known, with weights R_b(v, x) q(v | x0).

Where q(. | x0) changes little over a jump, by rejection: v comes from the jump rates R_b(v, x) alone and is kept with
probability q(v | x0) over the largest q(. | x0) within reach of x, where the reach covers nearly all jumps; the few
that go further are proposed apart, against the largest q(. | x0) of all. How often a proposal is kept is known
beforehand for every pair of x and x0. Where it is seldom, as at small times, the weights of a few blocks of states
around x are worked out, and a block is chosen and then a state of it; what they leave of the sum of all weights, which
is known, goes to the other states.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _draw
from tauleap.noise import DenseKernel
from tauleap.reverse.departures import chunks
from tauleap.reverse.inverse_cdf import BLOCK, InverseCdf, block_indicator

_BEYOND_REACH = 1e-4
_SELDOM = 0.3  # a proposal that is kept less often costs more than the weights around x
_FEW = 500  # draws for which another round of proposals does not pay
_AROUND = 5  # blocks


class Onward:
    """For one kernel q and one table R_b, both (S, S) with S a multiple of 16, and the sums of all weights.

    ``totals`` are sum_v R_b(v, x) q(v | x0) at [x0, x].
    """

    def __init__(self, kernel: DenseKernel, into: DenseKernel, totals: Tensor) -> None:
        self.kernel, self.size = kernel.matrix, kernel.matrix.shape[-1]
        self.into = into.table("columns", torch.float64, lambda: into.matrix.mT)  # [x, v]
        reach = int(into.table("reach", torch.int64, lambda: _reach(self.into)))
        cdf = into.table("near and far", torch.float64, lambda: _near_and_far(self.into, reach))
        begin = into.table("where to begin", torch.int64, lambda: InverseCdf.where_to_begin(cdf))
        self.proposals = InverseCdf(cdf, begin)
        near, far = self.proposals.total.view(2, -1)
        self.largest = self.kernel.amax(1)
        self.within = torch.nn.functional.max_pool1d(self.kernel[:, None], 2 * reach + 1, 1, reach)[:, 0]  # [x0, x]
        self.near = near * self.within
        self.proposed = torch.addcmul(self.near, self.largest[:, None], far)
        self.totals = totals
        self.around = min(_AROUND, self.size // BLOCK)
        self.first = _first_block(self.size, self.around).to(self.kernel.device)
        self.into_around = into.table("around", torch.float64, self._into_around)  # [x, v of the blocks]
        self.belongs = block_indicator(self.around * BLOCK, self.kernel)

    def _into_around(self) -> Tensor:
        states = self.first[:, None] * BLOCK + torch.arange(self.around * BLOCK, device=self.first.device)
        return self.into.gather(1, states)

    def draw(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        pair, out = x0 * self.size + x, torch.empty_like(x)
        proposed = _at(self.proposed, pair)
        often = _at(self.totals, pair) > _SELDOM * proposed
        left, rest = often.nonzero().squeeze(-1), (~often).nonzero().squeeze(-1)
        while len(left) > _FEW:
            kept, v = self._propose(x[left], x0[left], pair[left], proposed[left], generator)
            out.index_copy_(0, left, v)  # those that fail get another when they come again
            left = left[~kept]
        rest = torch.cat([rest, left])
        for part in chunks(len(rest), self.around * BLOCK, x.device):
            some = rest[part]
            out[some] = self._from_around(x[some], x0[some], pair[some], generator)
        return out

    def _propose(
        self, x: Tensor, x0: Tensor, pair: Tensor, proposed: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Whether a proposal is kept, and the proposal."""
        goes_far = _draw.uniforms(x.shape, x.device, generator) * proposed >= _at(self.near, pair)
        v = self.proposals.draw(x + self.size * goes_far, generator)
        limit = torch.where(goes_far, self.largest.index_select(0, x0), _at(self.within, pair))
        kept = _draw.uniforms(x.shape, x.device, generator) * limit < _at(self.kernel, x0 * self.size + v)
        return kept, v

    def _from_around(self, x: Tensor, x0: Tensor, pair: Tensor, generator: torch.Generator | None) -> Tensor:
        first = self.first.index_select(0, x)
        blocks = (x0 * (self.size // BLOCK) + first)[:, None] + torch.arange(self.around, device=x.device)
        weights = self.kernel.view(-1, BLOCK).index_select(0, blocks.view(-1)).view(len(x), -1)
        weights.mul_(self.into_around.index_select(0, x))
        sums = (weights @ self.belongs).cumsum(-1)
        target = _draw.uniforms(x.shape, x.device, generator).mul_(_at(self.totals, pair))
        block = (sums <= target[:, None]).sum(-1)
        near, far = ((block < self.around) == side for side in (True, False))
        out = torch.empty_like(x)
        rows = near.nonzero().squeeze(-1)
        block = block.index_select(0, rows)
        states = weights.view(-1, BLOCK).index_select(0, rows * self.around + block)
        out[rows] = block.add_(first.index_select(0, rows)).mul_(BLOCK).add_(_draw.categorical(states, generator))
        out[far] = self._from_elsewhere(x[far], x0[far], first[far], generator)
        return out

    def _from_elsewhere(self, x: Tensor, x0: Tensor, first: Tensor, generator: torch.Generator | None) -> Tensor:
        weights = self.into.index_select(0, x).mul_(self.kernel.index_select(0, x0))
        beyond = torch.arange(self.size, device=x.device) // BLOCK - first[:, None]
        others = weights.masked_fill((beyond >= 0) & (beyond < self.around), 0.0)
        # Where there is nothing else, rounding of the sums has led here.
        return _draw.categorical(torch.where((others > 0).any(-1, keepdim=True), others, weights), generator)


def _at(table: Tensor, place: Tensor) -> Tensor:
    return table.view(-1).index_select(0, place)


def _first_block(size: int, around: int) -> Tensor:
    """For each x the first of the blocks around it."""
    return (torch.arange(size) // BLOCK - around // 2).clamp_(0, size // BLOCK - around)


def _distance(into: Tensor) -> Tensor:
    states = torch.arange(len(into), device=into.device)
    return (states[:, None] - states).abs()


def _reach(into: Tensor) -> Tensor:
    """The distance that all but a 10^-4 of the jumps into any state stay within."""
    distance = _distance(into)
    total = torch.zeros(len(into), len(into), dtype=into.dtype, device=into.device).scatter_add_(1, distance, into)
    beyond = total.sum(1, keepdim=True) - total.cumsum(1)
    needed = (beyond > _BEYOND_REACH * total.sum(1, keepdim=True)).sum(1).max()
    return needed.clamp(1, len(into) // 2 - 1)


def _near_and_far(into: Tensor, reach: int) -> Tensor:
    """Running sums of the jump rates into x within reach, as rows x, and beyond it, as rows S + x."""
    near = _distance(into) <= reach
    return torch.cat([into * near, into * ~near]).cumsum(-1)
