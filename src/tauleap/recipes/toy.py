"""The two-dimensional example (Section 6.1, Appendix H.1): points whose law is a picture of the letter tau."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tauleap.data import Dataset, tau_points
from tauleap.denoise import NetworkDenoiser
from tauleap.network import ResidualMLP
from tauleap.noise import Exponential, Gaussian
from tauleap.objective import CompleteElbo
from tauleap.pretrained import Model
from tauleap.training import Recipe, Settings

SIZE = 32
_ROWS, _HELD_OUT = 1_000_000, 10_000


def toy() -> Recipe:
    """A million points, Gaussian noise, a network of 16,880 weights; batches of 32 for a million steps."""
    return Recipe(
        name="toy",
        data=_data,
        model=_model,
        objective=CompleteElbo(),
        settings=Settings(
            batch_size=32,
            lr=1e-4,
            clip=None,
            steps=1_000_000,
            checkpoint_every=5000,
            log_every=500,
            validate_every=20_000,
            validation_rows=4096,
            sample_every=20_000,
            samples=4096,
        ),
        picture=_picture,
    )


def _data() -> tuple[Dataset, Dataset]:
    generator = torch.Generator().manual_seed(0)
    points = tau_points(_ROWS + _HELD_OUT, size=SIZE, generator=generator).to(torch.uint8)
    return Dataset(points[:_ROWS], SIZE), Dataset(points[_ROWS:], SIZE)


def _model() -> Model:
    process = Gaussian(SIZE, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0)
    return Model(process, NetworkDenoiser(ResidualMLP(SIZE, (2,))), shape=(2,))


def _picture(points: Tensor) -> np.ndarray:
    """How often each of the 32 x 32 places comes, dark for often, y upwards."""
    counts = torch.bincount(points[:, 0] * SIZE + points[:, 1], minlength=SIZE * SIZE).reshape(SIZE, SIZE)
    grey = 255 - (255 * counts / counts.max().clamp(min=1)).round().to(torch.uint8)
    return grey.T.flip(0).repeat_interleave(8, 0).repeat_interleave(8, 1).numpy()
