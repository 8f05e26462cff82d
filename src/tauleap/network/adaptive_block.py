"""A transformer block steered by time: adaLN-zero of the diffusion transformer (Peebles and Xie 2023)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tauleap.network.attention import SelfAttention
from tauleap.network.rotary import Rotation


def zeroed(layer: nn.Linear) -> nn.Linear:
    """Set the weight and the bias, if there is one, of a layer to zero, and return the layer."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class SwiGLU(nn.Module):
    """Apply a gated MLP (Shazeer 2020), with as many parameters as a plain one with four times the width inside."""

    def __init__(self, width: int, *, bias: bool = True) -> None:
        super().__init__()
        hidden = 8 * ((width + 2) // 3)
        self.input = nn.Linear(width, 2 * hidden, bias=bias)
        self.output = nn.Linear(hidden, width, bias=bias)

    def forward(self, h: Tensor) -> Tensor:
        """Return the output (..., width) for an input (..., width)."""
        gate, value = self.input(h).chunk(2, dim=-1)
        return self.output(F.silu(gate) * value)


class AdaptiveBlock(nn.Module):
    """Apply pre-norm attention and MLP with norms and gates from the time; the gates begin at zero (adaLN-zero)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = SelfAttention(width, heads)
        self.mlp = SwiGLU(width)
        self.dropout = nn.Dropout(dropout)
        self.modulation = zeroed(nn.Linear(width, 6 * width))

    def forward(self, h: Tensor, embedding: Tensor, rotation: Rotation) -> Tensor:
        """Return the hidden states (B, D, width) after this layer."""
        scale_1, offset_1, gate_1, scale_2, offset_2, gate_2 = self.modulation(embedding).unsqueeze(1).chunk(6, dim=-1)
        update = self.attention(torch.addcmul(offset_1, 1 + scale_1, self.norm(h)), rotation)
        h = torch.addcmul(h, gate_1, self.dropout(update))
        update = self.mlp(torch.addcmul(offset_2, 1 + scale_2, self.norm(h)))
        return torch.addcmul(h, gate_2, self.dropout(update))
