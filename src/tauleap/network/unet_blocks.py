"""The parts of the U-Net (App. H.2; Ho et al. 2020)."""

from __future__ import annotations

from math import gcd, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tauleap import _device


def group_norm(channels: int) -> nn.GroupNorm:
    """Return a group norm with up to 32 groups of at least four channels; ``channels`` must be a multiple of four."""
    return nn.GroupNorm(gcd(32, channels // 4), channels, eps=1e-6)


class ConvolutionBlock(nn.Module):
    """Apply two convolutions with the time embedding between them, and scale the sum with the input by 1/sqrt 2."""

    def __init__(self, in_channels: int, out_channels: int, time_width: int, dropout: float) -> None:
        super().__init__()
        self.norm_1 = group_norm(in_channels)
        self.convolution_1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.time = nn.Linear(time_width, out_channels)
        self.norm_2 = group_norm(out_channels)
        self.dropout = nn.Dropout(dropout)
        self.convolution_2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        same = in_channels == out_channels
        self.shortcut = nn.Identity() if same else nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        """Return the output (B, out_channels, H, W); SiLU was already applied to ``embedding``."""
        update = self.convolution_1(F.silu(self.norm_1(h))) + self.time(embedding)[:, :, None, None]
        update = self.convolution_2(self.dropout(F.silu(self.norm_2(update))))
        return (self.shortcut(h) + update) / sqrt(2)


class PixelAttention(nn.Module):
    """Apply self-attention with one head between all pixels; its projection begins at zero."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = group_norm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Tensor) -> Tensor:
        """Return the output, with the shape (B, channels, H, W) of the input."""
        pixels = self.norm(h).flatten(2).transpose(1, 2)
        update = self.out(_attend(*self.qkv(pixels).chunk(3, dim=-1)))
        return (h + update.transpose(1, 2).view_as(h)) / sqrt(2)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt channels) v, by the fused kernel of torch or two products.

    On a CPU in half precision two products and their gradients take half of its time or less.
    """
    if _device.is_host(q.device) and q.dtype == torch.bfloat16:
        weights = torch.bmm(q * q.shape[-1] ** -0.5, k.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights.to(v.dtype), v)
    return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


class Stage(nn.Module):
    """Apply a convolution block and, if requested, attention."""

    def __init__(self, in_channels: int, out_channels: int, time_width: int, dropout: float, attention: bool) -> None:
        super().__init__()
        self.convolution = ConvolutionBlock(in_channels, out_channels, time_width, dropout)
        self.attention = PixelAttention(out_channels) if attention else nn.Identity()

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        """Return the output (B, out_channels, H, W)."""
        return self.attention(self.convolution(h, embedding))


class Upsample(nn.Module):
    """Double the height and width by nearest neighbours, then apply a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, h: Tensor) -> Tensor:
        """Return the output (B, channels, 2 H, 2 W)."""
        return self.convolution(F.interpolate(h, scale_factor=2.0, mode="nearest"))
