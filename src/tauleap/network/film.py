"""Feature-wise linear modulation (Perez et al. 2018): how time enters the paper's MLP and transformer."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Modulation(NamedTuple):
    """h -> scale * h + offset, feature by feature, the same at every site."""

    scale: Tensor
    offset: Tensor

    # A method with a name: torch.compile of PyTorch 2.6 cannot trace the call of a tuple.
    def modulate(self, h: Tensor) -> Tensor:
        """Return ``scale * h + offset``, in the shape (B, ..., width) of ``h``."""
        sites = (1,) * (h.ndim - 2)
        scale, offset = (p.view(p.shape[0], *sites, p.shape[1]) for p in self)
        return torch.addcmul(offset, scale, h)


class FiLM(nn.Module):
    """A linear layer from the time embedding to a Modulation, which may then be used more than once.

    The biases of the scales begin at 1, so that the untrained layer is close to the identity.
    """

    def __init__(self, time_width: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(time_width, 2 * width)
        nn.init.zeros_(self.linear.bias)
        nn.init.ones_(self.linear.bias[:width])

    def forward(self, embedding: Tensor) -> Modulation:
        """(B, time_width) -> a scale and an offset of (B, width) each."""
        return Modulation(*self.linear(embedding).chunk(2, dim=-1))
