"""The U-Net of the image experiment (App. H.2), that of Ho et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
import torch.nn.functional as F
from torch import nn

from tauleap import _check
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.checks import check_call, check_dropout, check_shape, check_sizes
from tauleap.network.encoding import normalise
from tauleap.network.network import Network, Times
from tauleap.network.time_embedding import TimeEmbedding
from tauleap.network.unet_blocks import Stage, Upsample, group_norm


@final
class UNet(Network):
    """Convolutions at several resolutions with skip connections (App. H.2); the defaults have 35.7 million parameters.

    Takes integer images (B, C, H, W), which it normalises to [-1, 1]. Resolution halves from level to level without
    padding, so H and W must be multiples of 2^(levels - 1): 32 x 32 has room for the four levels of the paper, 28 x 28
    and 8 x 8 for three, ``multipliers=(1, 2, 2)``.

    Args:
        num_states: S, the number of intensities.
        image_channels: C, 3 for colour.
        width: channels at the first level; a multiple of four.
        multipliers: channels at each level, in units of ``width``.
        depth: convolution blocks at each level on the way down; one more on the way up.
        attention_levels: the levels with attention, from 0. Level 1 of a 32 x 32 image is 16 x 16. The middle always
            has attention.
        dropout: probability of dropping, before the second convolution of each block.
        outputs: numbers for each pixel and channel: 2 for the mean and log scale of a truncated logistic,
            ``num_states`` for logits.
        mark_observed: append the mask of given pixels to the input channels. If false, ``observed`` tells the network
            nothing that ``x`` does not.
    """

    def __init__(
        self,
        num_states: int = 256,
        image_channels: int = 3,
        *,
        width: int = 128,
        multipliers: Sequence[int] = (1, 2, 2, 2),
        depth: int = 2,
        attention_levels: Sequence[int] = (1,),
        dropout: float = 0.1,
        outputs: int = 2,
        mark_observed: bool = False,
    ) -> None:
        _check.integer("num_states", num_states, least=2)
        check_sizes(image_channels=image_channels, width=width, depth=depth, outputs=outputs)
        if width % 4:
            raise ValueError(f"width must be a multiple of 4, for the group norm, got {width}")
        check_dropout(dropout)
        multipliers = check_shape(multipliers, name="multipliers")
        levels = range(len(multipliers))
        if not set(attention_levels) <= set(levels):
            raise ValueError(f"attention_levels must be among {list(levels)}, got {list(attention_levels)}")
        super().__init__(
            num_states=num_states,
            image_channels=image_channels,
            width=width,
            multipliers=list(multipliers),
            depth=depth,
            attention_levels=list(attention_levels),
            dropout=dropout,
            outputs=outputs,
            mark_observed=mark_observed,
        )
        self.num_states = num_states
        self.image_channels = image_channels
        self.divisor = 2 ** (len(multipliers) - 1)
        self.depth = depth
        self.outputs = outputs
        self.mark_observed = mark_observed

        time_width = 4 * width
        self.time = TimeEmbedding(width, time_width, time_width, nn.SiLU())
        self.input = nn.Conv2d(image_channels * (1 + mark_observed), width, 3, padding=1)
        channels, skips = width, [width]

        def stage(in_channels: int, level: int, attention: bool) -> Stage:
            nonlocal channels
            channels = width * multipliers[level]
            return Stage(in_channels, channels, time_width, dropout, attention)

        self.down, self.downsample = nn.ModuleList(), nn.ModuleList()
        for level in levels:
            if level > 0:
                self.downsample.append(nn.Conv2d(channels, channels, 3, stride=2, padding=1))
                skips.append(channels)
            for _ in range(depth):
                self.down.append(stage(channels, level, level in attention_levels))
                skips.append(channels)
        self.middle = nn.ModuleList(stage(channels, levels[-1], attention) for attention in (True, False))
        self.up, self.upsample = nn.ModuleList(), nn.ModuleList()
        for level in reversed(levels):
            if level < levels[-1]:
                self.upsample.append(Upsample(channels))
            for _ in range(depth + 1):
                self.up.append(stage(channels + skips.pop(), level, level in attention_levels))
        self.norm = group_norm(channels)
        self.output = nn.Conv2d(channels, outputs * image_channels, 3, padding=1)

    def forward(self, x: States, t: Times, *, observed: SiteMask | None = None) -> PerState:
        """int64 (B, C, H, W) -> (B, C, H, W, 2): a mean offset and a log scale (or as many ``outputs``)."""
        check_call(x, t, observed)
        if x.ndim != 4 or x.shape[1] != self.image_channels:
            raise ValueError(f"x must be images (B, {self.image_channels}, H, W), got {tuple(x.shape)}")
        if x.shape[2] % self.divisor or x.shape[3] % self.divisor:
            raise ValueError(
                f"height and width must be multiples of {self.divisor}, as each level but the first halves them, "
                f"got {x.shape[2]} x {x.shape[3]}: give UNet fewer multipliers, or pad the images"
            )
        h = normalise(x, self.num_states, self.input.weight.dtype)
        if self.mark_observed:
            mask = torch.zeros_like(x) if observed is None else observed
            h = torch.cat((h, mask.to(h.dtype)), dim=1)
        embedding = F.silu(self.time(t))
        # Channels last saves a fifth of a training step on a CPU; the parameters keep the layout that files have.
        h = self.input(h.contiguous(memory_format=torch.channels_last))
        skips = [h]
        for i, stage in enumerate(self.down):
            level, position = divmod(i, self.depth)
            if level > 0 and position == 0:
                h = self.downsample[level - 1](h)
                skips.append(h)
            h = stage(h, embedding)
            skips.append(h)
        for stage in self.middle:
            h = stage(h, embedding)
        for i, stage in enumerate(self.up):
            level, position = divmod(i, self.depth + 1)  # counted from the bottom
            if level > 0 and position == 0:
                h = self.upsample[level - 1](h)
            h = stage(torch.cat((h, skips.pop()), dim=1), embedding)
        h = self.output(F.silu(self.norm(h)))
        return h.unflatten(1, (self.outputs, self.image_channels)).movedim(1, -1)
