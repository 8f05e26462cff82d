"""Self-attention of every site to every other, through torch's fused kernel."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tauleap.network.rotary import Rotation


class SelfAttention(nn.Module):
    """Apply multi-head attention without a mask.

    There is no dropout of attention weights: it would keep torch from its fused kernel, which on a CPU costs a factor
    of nine, and the paper drops only the outputs of blocks (App. H.3).
    """

    def __init__(self, width: int, heads: int, *, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, h: Tensor, rotation: Rotation | None = None) -> Tensor:
        """Return the attention output (B, D, width); ``rotation`` turns queries and keys."""
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if rotation is not None:
            q, k = rotation.rotate(q), rotation.rotate(k)
        h = F.scaled_dot_product_attention(q, k, v)
        return self.out(h.transpose(1, 2).flatten(2))
