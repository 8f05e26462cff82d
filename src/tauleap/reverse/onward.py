"""Many draws of a destination v for which x and x0 are known, with weights R_b(v, x) q(v | x0).

By rejection: v comes from the jump rates R_b(v, x) alone and is kept with probability q(v | x0) over the largest
q(. | x0) within reach of x, where the reach covers nearly all jumps; the few that go further are proposed apart,
against the largest q(. | x0) of all. That is quick where q(. | x0) changes little over a jump, as it does but at small
times. Where most proposals fail the rest is drawn in two parts, first a block of states by the sums of the true weights
over blocks, a table made for that, and then a state of the block.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tauleap import _draw
from tauleap.noise import DenseKernel
from tauleap.reverse.inverse_cdf import BLOCK, InverseCdf, pick

_BEYOND_REACH = 1e-4
_ENOUGH = 0.3  # the share of proposals that must be kept for another round


class Onward:
    """For one kernel (S, S), whose 1 / q(x | x0) at [x, x0] is ``inverse``."""

    def __init__(self, kernel: DenseKernel, jump_rates: DenseKernel, inverse: Tensor) -> None:
        self.kernel, self.inverse, self.jump_rates = kernel.matrix, inverse, jump_rates
        self.size = len(inverse)
        self.into = jump_rates.table("columns", torch.float64, lambda: jump_rates.matrix.mT)  # [x, v]
        reach = int(jump_rates.table("reach", torch.int64, lambda: _reach(self.into)))
        cdf = jump_rates.table("near and far", torch.float64, lambda: _near_and_far(self.into, reach))
        begin = jump_rates.table("where to begin", torch.int64, lambda: InverseCdf.where_to_begin(cdf))
        self.proposals = InverseCdf(cdf, begin)
        self.largest = self.kernel.amax(1)
        self.within = torch.nn.functional.max_pool1d(self.kernel[:, None], 2 * reach + 1, 1, reach)  # [x0, x]
        self.by_rejection = True

    def draw(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        out, left = torch.empty_like(x), torch.arange(len(x), device=x.device)
        while len(left) and self.by_rejection:
            place = x0 * self.size
            within = self.within.view(-1).index_select(0, place + x)
            largest = self.largest.index_select(0, x0)
            near = self.proposals.total.index_select(0, x) * within
            far = self.proposals.total.index_select(0, x + self.size) * largest
            goes_far = _draw.uniforms(x.shape, x.device, generator) * (near + far) >= near
            v = self.proposals.draw(x + self.size * goes_far, generator)
            out.index_copy_(0, left, v)  # those that fail get another when they come again
            limit = torch.where(goes_far, largest, within)
            true = self.kernel.view(-1).index_select(0, place.add_(v))
            again = (_draw.uniforms(x.shape, x.device, generator) * limit >= true).nonzero().squeeze(-1)
            self.by_rejection = len(left) - len(again) > _ENOUGH * len(left)
            left, x, x0 = (value.index_select(0, again) for value in (left, x, x0))
        return out.index_copy_(0, left, self._by_blocks(x, x0, generator)) if len(left) else out

    def _by_blocks(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        number = self.size // BLOCK
        block = pick(self._true_sums.index_select(0, x * self.size + x0), generator)
        weights = self.kernel.view(-1, BLOCK).index_select(0, x0 * number + block)
        weights.mul_(self.into.view(-1, BLOCK).index_select(0, x * number + block))
        return block.mul_(BLOCK).add_(pick(weights, generator))

    @cached_property
    def _true_sums(self) -> Tensor:
        """sum of R_b(v, x) q(v | x0) / q(x | x0) over each block of v, as rows x S + x0: (S^2, S / 16)."""
        onward = self.kernel.reshape(self.size, -1, BLOCK).permute(1, 2, 0)  # [block, v, x0]
        into = self.into.reshape(self.size, -1, BLOCK).transpose(0, 1)  # [block, x, v]
        sums = torch.bmm(into, onward).mul_(self.inverse)  # [block, x, x0]
        return sums.permute(1, 2, 0).to(torch.float32).reshape(self.size**2, -1)


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
