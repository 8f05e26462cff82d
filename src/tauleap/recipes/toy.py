"""The two-dimensional example (Section 6.1, Appendix H.1): points distributed like an image of the letter tau."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tauleap.data import Dataset, tau_pmf, tau_points
from tauleap.denoise import ExactDenoiser, NetworkDenoiser
from tauleap.model import Model
from tauleap.network import ResidualMLP
from tauleap.noise import Exponential, Gaussian
from tauleap.objective import CompleteElbo, LogUniformTimes, PaperElbo
from tauleap.reverse import ReverseProcess
from tauleap.training import Recipe, Settings

SIZE = 32
_ROWS, _HELD_OUT = 1_000_000, 10_000


def toy() -> Recipe:
    """Return a recipe for the two-dimensional example that trains in about a minute.

    Differences from the paper: the network has one-hot inputs and is four times as wide; the loss is the complete bound
    with its reconstruction term, with t uniform in log t, because the rates grow towards the data; and the learning
    rate decays.

    >>> toy().settings.steps
    3000

    Returns:
        The recipe, with a million training points.
    """
    steps = 3000
    return Recipe(
        name="toy",
        data=_data,
        model=_wide_model,
        objective=CompleteElbo(reconstruction=True, times=LogUniformTimes()),
        settings=Settings(
            batch_size=768,
            lr=4e-3,
            warmup=100,
            decay=steps,
            ema=0.999,
            steps=steps,
            checkpoint_every=1000,
            log_every=100,
            validate_every=1500,
            validation_rows=1024,
            sample_every=1500,
            samples=4096,
        ),
        picture=_picture,
    )


def toy_paper() -> Recipe:
    """Return the paper's recipe: 16,880 weights, L_CT, Adam with 1e-4, batches of 32, a million steps.

    >>> toy_paper().settings.batch_size
    32

    Returns:
        The recipe, with a million training points.
    """
    return Recipe(
        name="toy-paper",
        data=_data,
        model=_published_model,
        objective=PaperElbo(passes=2),
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


def toy_process() -> Gaussian:
    """Return the noise of Appendix H.1: beta(t) = 5 * 5^t log 5, sigma_0 = 8, sigma_r = 1."""
    return Gaussian(SIZE, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0)


def exact_reverse() -> ReverseProcess:
    """Return the reverse process with the true posterior, a lower limit for the error of any network."""
    process = toy_process()
    return ReverseProcess(process, ExactDenoiser(tau_pmf(), process))


def _data() -> tuple[Dataset, Dataset]:
    generator = torch.Generator().manual_seed(0)
    points = tau_points(_ROWS + _HELD_OUT, size=SIZE, generator=generator).to(torch.uint8)
    return Dataset(points[:_ROWS], SIZE), Dataset(points[_ROWS:], SIZE)


def _wide_model() -> Model:
    network = ResidualMLP(SIZE, (2,), width=64, hidden=128, one_hot=True)
    return Model(toy_process(), NetworkDenoiser(network), shape=(2,))


def _published_model() -> Model:
    return Model(toy_process(), NetworkDenoiser(ResidualMLP(SIZE, (2,))), shape=(2,))


def _picture(points: Tensor) -> np.ndarray:
    """Return the counts of the 32 x 32 positions as an image, dark for frequent, y upwards."""
    counts = torch.bincount(points[:, 0] * SIZE + points[:, 1], minlength=SIZE * SIZE).reshape(SIZE, SIZE)
    grey = 255 - (255 * counts / counts.max().clamp(min=1)).round().to(torch.uint8)
    return grey.T.flip(0).repeat_interleave(8, 0).repeat_interleave(8, 1).numpy()
