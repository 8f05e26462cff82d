"""Absorbing noise: a site jumps to one state, the mask, and stays there (Appendix E)."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check
from tauleap._shapes import Law
from tauleap.noise.rank_one import RankOneProcess
from tauleap.noise.schedule import Schedule


class Absorbing(RankOneProcess):
    """``R_b = 1 e_*^T - I``: data states are lost to the mask ``*`` at rate beta.

    ``num_states`` counts the mask, which is the last state unless ``mask`` names another. At time 1 the share
    ``alpha = exp(-c(1))`` of the sites is not masked yet; the prior spreads it over the data states, since with the
    mask alone the likelihood bound would be infinite.

    >>> from tauleap.noise import Constant
    >>> Absorbing(3, Constant(1.0)).generator()
    tensor([[-1.,  0.,  1.],
            [ 0., -1.,  1.],
            [ 0.,  0.,  0.]], dtype=torch.float64)
    """

    def __init__(self, num_states: int, schedule: Schedule, mask: int | None = None) -> None:
        super().__init__(num_states, schedule)
        self.mask = self.num_states - 1 if mask is None else _check.integer("mask", mask, least=0)
        if self.mask >= self.num_states:
            raise ValueError(f"mask must be one of the states 0..{self.num_states - 1}, got {mask}")
        law = torch.zeros(self.num_states, dtype=torch.float64)
        law[self.mask] = 1.0
        self.register_buffer("law", law, persistent=False)
        self.law: Tensor

    def stationary(self) -> Law:
        return self.law

    def prior(self) -> Law:
        left = torch.exp(-self.schedule.total(1.0)).to(self.law.device)
        return torch.where(self.data_states, left / (self.num_states - 1), 1 - left)

    @property
    def data_states(self) -> Tensor:
        return self.law == 0

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mask={self.mask}"
