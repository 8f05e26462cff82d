"""Handwritten digits, 8 x 8 pixels with 17 levels: an image experiment of a few minutes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from tauleap import data
from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser
from tauleap.model import Model
from tauleap.network import UNet
from tauleap.noise import Exponential, Gaussian
from tauleap.objective import CompleteElbo
from tauleap.training import Recipe, Settings

_STATES, _HELD_OUT = 17, 297


def digits() -> Recipe:
    """Return a recipe for 8 x 8 digits: Gaussian noise, a small U-Net, 1,500 training and 297 held-out images.

    >>> digits().settings.steps
    5000

    Returns:
        The recipe, about 10 minutes on two cores.
    """
    return Recipe(
        name="digits",
        data=_data,
        model=_model,
        objective=CompleteElbo(),
        settings=Settings(
            batch_size=32,
            lr=1e-3,
            warmup=100,
            ema=0.999,
            steps=5000,
            checkpoint_every=500,
            log_every=100,
            validate_every=1000,
            validation_rows=_HELD_OUT,
            sample_every=1000,
            samples=64,
        ),
        picture=_picture,
    )


def _data() -> tuple[Dataset, Dataset]:
    return replace(data.digits(), condition=None).split(_HELD_OUT)


def _model() -> Model:
    # At t = 1 an image is 0.002 nats from the prior.
    process = Gaussian(_STATES, Exponential(0.3, 50.0), sigma_0=16.0, sigma_r=2.0)
    network = UNet(_STATES, 1, width=32, multipliers=(1, 2), depth=1, attention_levels=(), dropout=0.1, outputs=_STATES)
    return Model(process, NetworkDenoiser(network), shape=(1, 8, 8))


def _picture(images: Tensor) -> np.ndarray:
    """Return the images side by side in a square, with dark ink."""
    side = int(len(images) ** 0.5)
    grey = 255 - (images[: side * side, 0] * 255 // (_STATES - 1)).to(torch.uint8)
    framed = pad(grey, (1, 1, 1, 1), value=255).reshape(side, side, 10, 10)
    grid = framed.permute(0, 2, 1, 3).reshape(side * 10, side * 10)
    return grid.repeat_interleave(4, 0).repeat_interleave(4, 1).contiguous().numpy()
