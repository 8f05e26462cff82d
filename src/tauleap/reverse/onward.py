"""Many draws of a destination v for which x and x0 are known, with weights R_b(v, x) q(v | x0).

Where q(. | x0) changes little over a jump, by rejection: v comes from the jump rates R_b(v, x) alone and is kept with
probability q(v | x0) over the largest q(. | x0) within reach of x, where the reach covers nearly all jumps; the few
that go further are proposed apart, against the largest q(. | x0) of all. How often a proposal is kept is known
beforehand for every pair of x and x0. Where it is seldom, as at small times, a block of 32 states is chosen by the sums
of the weights over blocks, and then a state of the block. The sums of all pairs of x0 and x are a product of matrices
for each block, together as much work as one product of the kernel with the rates.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._chunks import chunks
from tauleap.noise import DenseKernel
from tauleap.reverse.inverse_cdf import InverseCdf

BLOCK = 32
"""States in a block of destinations, of which there must be a whole number."""
_BEYOND_REACH = 1e-4
_STEEP = 1.0  # by which log q changes over the reach of a jump: from here on hardly any proposal is kept
_SELDOM = 0.3  # a proposal that is kept less often costs more than the choice of a block
_FEW = 500  # draws for which another round of proposals does not pay


class Onward:
    """For one kernel q and one table R_b, both (S, S) with S a multiple of 32, and the sums of all weights.

    ``totals`` are sum_v R_b(v, x) q(v | x0) at [x0, x].
    """

    def __init__(self, kernel: DenseKernel, into: DenseKernel, totals: Tensor) -> None:
        self.kernel, self.size = kernel.matrix, kernel.matrix.shape[-1]
        self.rates, self.totals = into.matrix, totals
        self.into = into.table("columns", torch.float64, lambda: into.matrix.mT)  # [x, v]
        self.reach = int(into.table("reach", torch.int64, lambda: _reach(self.into)))
        cdf = into.table("near and far", torch.float64, lambda: _near_and_far(self.into, self.reach))
        begin = into.table("where to begin", torch.int64, lambda: InverseCdf.where_to_begin(cdf))
        self.proposals = InverseCdf(cdf, begin)
        self.steep = -math.log(kernel.smallest) * self.reach > _STEEP * self.size

    def draw(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        """A state for each entry of x and x0, (n,)."""
        pair, out, rest = x0 * self.size + x, torch.empty_like(x), torch.arange(len(x), device=x.device)
        if not self.steep:
            proposed = _at(self._proposed, pair)
            often = _at(self.totals, pair) > _SELDOM * proposed
            left, rest = often.nonzero().squeeze(-1), (~often).nonzero().squeeze(-1)
            while len(left) > _FEW:
                kept, v = self._propose(*(_at(given, left) for given in (x, x0, pair, proposed)), generator)
                out.index_copy_(0, left, v)  # those that fail get another when they come again
                left = _at(left, (~kept).nonzero().squeeze(-1))
            rest = torch.cat([rest, left])
        draw = self._by_blocks if len(rest) > _FEW else self._by_rows
        for part in chunks(len(rest), BLOCK, x.device):
            some = rest[part]
            out.index_copy_(0, some, draw(_at(x, some), _at(x0, some), generator))
        return out

    def _propose(
        self, x: Tensor, x0: Tensor, pair: Tensor, proposed: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Whether a proposal is kept, and the proposal."""
        goes_far = _draw.uniforms(x.shape, x.device, generator) * proposed >= _at(self._near, pair)
        v = self.proposals.draw(x + self.size * goes_far, generator)
        limit = torch.where(goes_far, self._largest.index_select(0, x0), _at(self._within, pair))
        kept = _draw.uniforms(x.shape, x.device, generator) * limit < _at(self.kernel, x0 * self.size + v)
        return kept, v

    def _by_blocks(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        number = self.size // BLOCK
        places = torch.arange(0, number * self.size**2, self.size**2, device=x.device)[:, None] + (x0 * self.size + x)
        sums = self._sums.index_select(0, places.view(-1)).view(places.shape).cumsum_(0)
        block = (sums < _draw.targets(sums[-1], generator)).sum(0)
        weights = self.kernel.view(-1, BLOCK).index_select(0, x0 * number + block)
        weights.mul_(self.into.view(-1, BLOCK).index_select(0, x * number + block))
        return _draw.categorical(weights, generator).add_(block.mul_(BLOCK))

    def _by_rows(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        weights = self.into.index_select(0, x).mul_(self.kernel.index_select(0, x0))
        return _draw.categorical(weights, generator)

    @cached_property
    def _sums(self) -> Tensor:
        """sum_v R_b(v, x) q(v | x0) over the states v of a block, at [block, x0, x]."""
        number = self.size // BLOCK
        kernel = self.kernel.view(self.size, number, BLOCK).transpose(0, 1)
        return torch.bmm(kernel, self.rates.reshape(number, BLOCK, self.size)).view(-1)

    @cached_property
    def _largest(self) -> Tensor:
        """Of q(. | x0), at [x0]."""
        return self.kernel.amax(1)

    @cached_property
    def _within(self) -> Tensor:
        """The largest q(v | x0) for v within reach of x, at [x0, x]."""
        return torch.nn.functional.max_pool1d(self.kernel[:, None], 2 * self.reach + 1, 1, self.reach)[:, 0]

    @cached_property
    def _near(self) -> Tensor:
        return self.proposals.total[: self.size] * self._within

    @cached_property
    def _proposed(self) -> Tensor:
        """The sum of what is proposed, near and far, at [x0, x]."""
        return torch.addcmul(self._near, self._largest[:, None], self.proposals.total[self.size :])


def _at(table: Tensor, place: Tensor) -> Tensor:
    return table.view(-1).index_select(0, place)


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
