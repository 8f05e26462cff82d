"""The networks that ``defaults.py`` compares, of the sizes that ``tauleap.fit`` chooses for the minutes."""

from __future__ import annotations

import math

import torch
from torch import nn

from tauleap.data import Dataset
from tauleap.denoise import RaggedDenoiser
from tauleap.network import ResidualMLP, SequenceTransformer, TableNetwork, UNet
from tauleap.noise import Absorbing


def table(
    data: Dataset,
    process: Absorbing,
    minutes: float,
    *,
    width: int | None = None,
    depth: int | None = None,
    dropout: float = 0.0,
    time: bool = False,
    former: bool = False,
) -> nn.Module:
    """Return a table network, or the residual MLP over padded indicators that was used before it."""
    if former:
        hidden = 256 if minutes < 10 else 512
        sizes = {"width": hidden, "hidden": 2 * hidden, "depth": 3}
        return ResidualMLP(process.num_states, data.shape, **sizes, one_hot=True, mark_observed=True)
    width = (128 if minutes < 10 else 192) if width is None else width
    depth = (2 if minutes < 10 else 3) if depth is None else depth
    counts = torch.full(data.shape, data.num_states) if data.sizes is None else data.sizes
    sizes = {"width": width, "hidden": 4 * width, "depth": depth, "dropout": dropout, "time": time}
    return RaggedDenoiser(TableNetwork(counts.flatten().tolist(), data.shape, **sizes), process.num_states)


def sequence(
    data: Dataset,
    process: Absorbing,
    minutes: float,
    *,
    width: int,
    plain: bool = True,
    time: bool = False,
    observed: bool = False,
) -> nn.Module:
    """Return a transformer; with a width of 64, twice as wide from five minutes, as ``fit`` chose before."""
    width = 2 * width if width == 64 and not plain and minutes >= 5 else width
    options = {"plain": plain, "time": time, "mark_observed": observed}
    return SequenceTransformer(
        process.num_states, data.shape, width=width, depth=4, heads=max(1, width // 32), **options
    )


def images(
    data: Dataset, process: Absorbing, minutes: float, *, time: bool = False, observed: bool = True
) -> nn.Module:
    """Return a U-Net for grey images."""
    halvings = max(0, min(4, round(math.log2(min(data.shape) / 7))))
    return UNet(
        process.num_states,
        1,
        width=24 if minutes < 10 else 48,
        multipliers=(1, *(2,) * halvings),
        depth=1,
        attention_levels=(),
        dropout=0.0,
        outputs=process.num_states,
        output_kernel=1,
        mark_observed=observed,
        masked=True,
        pad=True,
        time=time,
    ).init_smooth_()
