"""Uniform noise: a site jumps to every other state at the same rate (Section 4.1, Appendix E)."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import Law
from tauleap.noise.rank_one import RankOneProcess
from tauleap.noise.schedule import Schedule


class Uniform(RankOneProcess):
    """Jump to every other state at the same rate beta: ``R_b = 1 1^T - S I`` and ``alpha = exp(-S c)``.

    For categories without an order. The paper uses 129 states and ``Constant(0.03)`` for music. For a schedule that is
    defined by alpha (LogLinear, Cosine) use ``RankOne`` with a uniform prior.

    Args:
        num_states: The number of states S of a site, >= 2.
        schedule: The noise schedule beta(t).

    >>> from tauleap.noise import Constant
    >>> Uniform(3, Constant(1.0)).generator()
    tensor([[-2.,  1.,  1.],
            [ 1., -2.,  1.],
            [ 1.,  1., -2.]], dtype=torch.float64)
    """

    def __init__(self, num_states: int, schedule: Schedule) -> None:
        super().__init__(num_states, schedule)
        self.base_rate = float(self.num_states)
        law = torch.full((self.num_states,), 1 / self.num_states, dtype=torch.float64)
        self.register_buffer("law", law, persistent=False)
        self.law: Tensor

    def stationary(self) -> Law:
        return self.law
