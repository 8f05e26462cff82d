"""Uniform noise: a site jumps to every other state at the same rate (Section 4.1, Appendix E)."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import Law
from tauleap.noise.rank_one import RankOneProcess
from tauleap.noise.schedule import Schedule


class Uniform(RankOneProcess):
    """``R_b = 1 1^T - S I``, in the paper's units: every other state at rate beta, so ``alpha = exp(-S c)``.

    The process for categories without an order. Music in the paper: 129 states, ``Constant(0.03)``. For a schedule that
    is given by alpha (LogLinear, Cosine) write ``RankOne`` with a uniform prior.

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
