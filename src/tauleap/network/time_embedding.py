"""Time, and position, as a vector of sines and cosines (Vaswani et al. 2017; Ho et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

TIME_SCALE = 1000.0
"""Times in [0, 1] become positions in [0, 1000], the range for which the wavelengths were chosen."""


def sinusoidal(position: Tensor, size: int) -> Tensor:
    """(N,) positions, whole or not -> (N, size): sines, then cosines, of angular frequencies from 1 down to 1e-4."""
    dtype = torch.promote_types(position.dtype, torch.float32)
    frequencies = torch.logspace(0, -4, size // 2, device=position.device, dtype=dtype)
    angles = position.to(dtype).unsqueeze(-1) * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class TimeEmbedding(nn.Module):
    """t -> sinusoidal embedding of 1000 t -> MLP with one hidden layer (App. H).

    Args:
        size: of the sinusoidal embedding; even.
        hidden: width of the hidden layer.
        out: size of the result.
        activation: of the hidden layer; ReLU by default.
    """

    def __init__(self, size: int, hidden: int, out: int, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.size = size
        self.hidden = nn.Linear(size, hidden)
        self.activation = nn.ReLU() if activation is None else activation
        self.out = nn.Linear(hidden, out)

    def forward(self, t: Tensor) -> Tensor:
        """() or (B,) -> (1, out) or (B, out); one time that was expanded to a batch is embedded once, to (1, out)."""
        if t.ndim and t.stride(0) == 0:
            t = t[0]
        embedding = sinusoidal(TIME_SCALE * t.reshape(-1), self.size)
        return self.out(self.activation(self.hidden(embedding.to(self.hidden.weight.dtype))))
