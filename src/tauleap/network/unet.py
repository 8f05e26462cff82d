"""The U-Net of the image experiment (App. H.2), that of Ho et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tauleap import _check, _device
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.inputs import TimeEmbedding, check_call, check_dropout, check_shape, check_sizes, normalise
from tauleap.network.labels import add_label, label_vectors
from tauleap.network.network import Network, Times
from tauleap.network.unet_blocks import Stage, Upsample, group_norm


@final
class UNet(Network):
    """Apply convolutions at several resolutions with skip connections (App. H.2): 35.7 million parameters by default.

    Takes integer images (B, C, H, W), or (B, H, W) where C is 1, which it normalises to [-1, 1]. Resolution halves from
    level to level without padding, so H and W must be multiples of 2^(levels - 1): 32 x 32 has room for the four levels
    of the paper, 28 x 28 and 8 x 8 for three, ``multipliers=(1, 2, 2)``. With ``pad`` other sizes are filled up inside.

    Args:
        num_states: The number of states S: the intensities, and the mask if ``masked``. Default: 256.
        image_channels: The number of colour channels C. Default: 3.
        width: The number of channels at the first level, a multiple of 4. Default: 128.
        multipliers: The number of channels at each level, in units of ``width``. Default: (1, 2, 2, 2).
        depth: The number of convolution blocks at each level on the way down; on the way up there is one more. Default:
            2.
        attention_levels: The levels with attention, from 0. Level 1 of a 32 x 32 image is 16 x 16. The middle always
            has attention. Default: (1,).
        dropout: The probability of dropping before the second convolution of each block, in [0, 1). Default: 0.1.
        outputs: The number of outputs per pixel and channel: 2 for the mean and log scale of a truncated logistic,
            ``num_states`` for logits. Default: 2.
        mark_observed: Whether the mask of the observed pixels is appended to the input channels. If false, ``observed``
            has no effect. Default: False.
        masked: Whether the last state is the mask of absorbing noise. It enters as 0, in the middle of the intensities,
            and an additional channel per colour marks it. Default: False.
        output_kernel: The side of the kernel of the last convolution, odd. 1 is cheaper if there are many ``outputs``.
            Default: 3.
        patch: The side of the square patches of pixels that are stacked as channels of one pixel. The first level then
            has a side of H / ``patch``: convolutions cost less and cover a larger part of the image. Default: 1.
        pad: Whether sides are filled up to a multiple of ``patch`` 2^(levels - 1) inside. Default: False.
        channels_last: Whether images are (B, H, W, C) instead of (B, C, H, W). Default: False.
        num_classes: The number of class labels that ``condition`` can have. Default: None, a network without labels.
        time: Whether the network takes t. Under absorbing noise the posterior does not depend on t, and a network
            without it has the bound of :class:`tauleap.objective.AnyOrderElbo`; other noise needs it. Default: True.

    >>> network = UNet(17, 1, width=8, multipliers=(1, 2), outputs=17)
    >>> network(torch.zeros(1, 1, 8, 8, dtype=torch.int64), torch.tensor(0.5)).shape
    torch.Size([1, 1, 8, 8, 17])
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
        masked: bool = False,
        output_kernel: int = 3,
        patch: int = 1,
        pad: bool = False,
        channels_last: bool = False,
        num_classes: int | None = None,
        time: bool = True,
    ) -> None:
        _check.integer("num_states", num_states, least=3 if masked else 2)
        check_sizes(image_channels=image_channels, width=width, depth=depth, outputs=outputs, patch=patch)
        if num_classes is not None:
            check_sizes(num_classes=num_classes)
        if width % 4:
            raise ValueError(f"width must be a multiple of 4, for the group norm, got {width}")
        if _check.integer("output_kernel", output_kernel, least=1) % 2 == 0:
            raise ValueError(f"output_kernel must be odd, so that the size stays, got {output_kernel}")
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
            masked=masked,
            output_kernel=output_kernel,
            pad=pad,
            channels_last=channels_last,
            num_classes=num_classes,
            # Runs of versions without these arguments do not have them.
            **({} if patch == 1 else {"patch": patch}),
            **({} if time else {"time": False}),
        )
        self.uses_time = time
        self.num_states = num_states
        self.image_channels = image_channels
        self.patch = patch
        self.divisor = patch * 2 ** (len(multipliers) - 1)
        self.depth = depth
        self.outputs = outputs
        self.mark_observed = mark_observed
        self.masked = masked
        self.pad = pad
        self.channels_last = channels_last

        time_width = 4 * width
        self.time = TimeEmbedding(width, time_width, time_width, nn.SiLU(), time=time)
        self.classes = label_vectors(num_classes, time_width)
        if self.classes is not None:
            nn.init.zeros_(self.classes.weight)  # so that a network without labels can be taught them
        pixels = image_channels * patch**2
        self.input = nn.Conv2d(pixels * (1 + mark_observed + masked), width, 3, padding=1)
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
        self.output = nn.Conv2d(channels, outputs * pixels, output_kernel, padding=output_kernel // 2)

    def forward(
        self, x: States, t: Times, *, observed: SiteMask | None = None, condition: Tensor | None = None
    ) -> PerState:
        """Return a mean offset and a log scale per pixel, (B, C, H, W, 2), or as many ``outputs``.

        Args:
            x: int64 (B, C, H, W), the noisy image.
            t: floating, () or (B,).
            observed: bool, true where a pixel is given. Default: none.
            condition: int64 (B,), class labels; the label ``num_classes`` means that the class is not known. Default:
                None, no class is known.
        """
        check_call(x, t, observed)
        flat = x.ndim == 3 and self.image_channels == 1
        axis = -1 if self.channels_last else 1
        if x.ndim != 4 - flat or (not flat and x.shape[axis] != self.image_channels):
            expected = "B, H, W, {}" if self.channels_last else "B, {}, H, W"
            raise ValueError(f"x must be images ({expected.format(self.image_channels)}), got {tuple(x.shape)}")
        embedding = F.silu(add_label(self.time(t), self.classes, condition, len(x)))
        if flat:
            return self._pictures(x[:, None], embedding, None if observed is None else observed[:, None])[:, 0]
        if self.channels_last:
            observed = None if observed is None else observed.movedim(-1, 1)
            return self._pictures(x.movedim(-1, 1), embedding, observed).movedim(1, -2)
        return self._pictures(x, embedding, observed)

    def _pictures(self, x: States, embedding: Tensor, observed: SiteMask | None) -> PerState:
        height, width = x.shape[2:]
        below, right = -height % self.divisor, -width % self.divisor
        if (below or right) and not self.pad:
            raise ValueError(
                f"height and width must be multiples of {self.divisor} (a factor of 2 for each level after the first"
                f"{'' if self.patch == 1 else f', and a factor of {self.patch} for patches'}), "
                f"got {height} x {width}: give UNet fewer multipliers, or pad=True"
            )
        h = self._encode(x, observed)
        if below or right:
            h = F.pad(h, (0, right, 0, below))
        if self.patch > 1:
            h = F.pixel_unshuffle(h, self.patch)
        h = _laid_out(self.input(h))
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
        if self.patch == 1:
            return h[..., :height, :width].unflatten(1, (self.outputs, self.image_channels)).movedim(1, -1)
        h = h.unflatten(1, (self.outputs, self.image_channels, self.patch, self.patch))
        h = h.permute(0, 2, 5, 3, 6, 4, 1)  # (B, C, H / patch, patch, W / patch, patch, outputs)
        return h.flatten(4, 5).flatten(2, 3)[:, :, :height, :width]

    @torch.no_grad()
    def init_smooth_(self) -> UNet:
        """Initialise the last layer so that logits of neighbouring states are similar, and return the network.

        The weights of the last layer become cosines of the state, with the features divided among the colours (and the
        pixels of a patch), so that a peak in the logits needs a few features instead of all weights of a state.
        Training converges to the same loss, faster.
        """
        weight = self.output.weight
        features, pixels = torch.arange(weight.shape[1], device=weight.device), len(weight) // self.outputs
        place = (torch.arange(self.outputs, device=weight.device) + 0.5) / self.outputs
        waves = torch.cos(pi * place[:, None] * (features // pixels + 1))
        turn = features % pixels == torch.arange(pixels, device=weight.device)[:, None]
        nn.init.normal_(weight, std=0.02)
        centre = weight.shape[-1] // 2
        weight[..., centre, centre] += 0.5 * (waves[:, None] * turn).flatten(0, 1)
        nn.init.zeros_(self.output.bias)  # pyright: ignore[reportArgumentType] (it has one)
        return self

    def _encode(self, x: States, observed: SiteMask | None) -> Tensor:
        """Return intensities from -1 to 1, with channels that mark masked pixels and observed ones."""
        dtype = self.input.weight.dtype
        if self.masked:
            hidden = x == self.num_states - 1
            channels = [normalise(x, self.num_states - 1, dtype).masked_fill(hidden, 0.0), hidden.to(dtype)]
        else:
            channels = [normalise(x, self.num_states, dtype)]
        if self.mark_observed:
            channels.append((torch.zeros_like(x) if observed is None else observed).to(dtype))
        return torch.cat(channels, dim=1)


def _laid_out(h: Tensor) -> Tensor:
    """Return h with channels last, except on a CPU in half precision.

    This saves a fifth of a training step, but there group norm would take half of the time. The parameters keep the
    layout that files have.
    """
    if _device.is_host(h.device) and h.dtype != torch.float32:
        return h
    return h.contiguous(memory_format=torch.channels_last)
