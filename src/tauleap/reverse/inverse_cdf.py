"""Many draws from a few laws: by inverse CDF in float64, right in the tails."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _draw


class InverseCdf:
    """A table of running sums (rows, S), and where to begin in it: how many sums lie below each multiple of total / S.

    A draw then looks at two or three entries, however many states there are.
    """

    def __init__(self, cdf: Tensor, begin: Tensor) -> None:
        self.cdf, self.begin, self.size = cdf, begin, cdf.shape[-1]
        self.total = cdf[:, -1].contiguous()

    @staticmethod
    def where_to_begin(cdf: Tensor) -> Tensor:
        """int64 (rows, S)."""
        size, total = cdf.shape[-1], cdf[:, -1:]
        # A sum counts from the first multiple that is not below it; to begin too soon is a step more, and not wrong.
        first = (cdf / torch.where(total > 0, total, 1.0) * size * (1 + 1e-12)).ceil().long().clamp_(max=size)
        counts = torch.zeros(len(cdf), size + 1, dtype=torch.int64, device=cdf.device)
        return counts.scatter_add_(-1, first, torch.ones_like(first)).cumsum(-1)[:, :size].contiguous()

    def draw(self, rows: Tensor, generator: torch.Generator | None) -> Tensor:
        """A state for each entry of ``rows``."""
        total, start = self.total.index_select(0, rows), rows * self.size
        target = _draw.targets(total, generator)
        place = target.div(total).mul_(self.size).long().clamp_(max=self.size - 1).add_(start)
        state = self.begin.view(-1).index_select(0, place)
        # Mostly it is the state there or the next; the rest, in the tails, is searched for.
        cdf = self.cdf.view(-1)
        state += cdf.index_select(0, start + state) < target
        further = (cdf.index_select(0, start.add_(state)) < target).nonzero().squeeze(-1)
        return state.index_copy_(0, further, _draw.first_to_reach(self.cdf, rows[further], target[further]))
