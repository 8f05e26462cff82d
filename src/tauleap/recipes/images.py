"""Images as discrete data (Section 6.2, Appendix H.2): every intensity is a state, and the states are ordered.

Noise, objectives, networks and settings are functions, which :func:`images` combines: the published run on CIFAR-10 and
one for a CPU share the same code.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tauleap import data as sources
from tauleap.data import Dataset
from tauleap.data.image.format import ImageFormat
from tauleap.denoise import Denoiser, NetworkDenoiser, TruncatedLogistic
from tauleap.model import Model
from tauleap.network import UNet
from tauleap.noise import Absorbing, Exponential, ForwardProcess, Gaussian, LogLinear
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    Objective,
    PaperElbo,
    ReweightedTimes,
    Subsampled,
)
from tauleap.recipes.settings import paper_settings
from tauleap.sampling import Sampler, TauLeaping, WithCorrector
from tauleap.training import Batch, RandomMasks, Recipe, Settings
from tauleap.training.augment import LabelDropout, flip_left_right

LEVELS, DIGITS = 256, 10
_HELD_OUT = 1000
DIRECT = 0.001
"""Weight of direct supervision (Appendix D)."""


def gaussian_noise() -> Gaussian:
    """Return the paper's noise: sigma_0 = 512, sigma_r = 6, beta(t) = 3 * 100^t log 100."""
    return Gaussian(LEVELS, Exponential(3.0, 100.0), sigma_0=512.0, sigma_r=6.0)


def absorbing_noise() -> Absorbing:
    """Return absorbing noise, that of the absorbing baseline."""
    return Absorbing(LEVELS + 1, LogLinear())


def one_pass() -> Objective:
    """Return the paper's objective, L_eCT + 0.001 L_ll."""
    return PaperElbo(passes=1) + DIRECT * CrossEntropy()


def weighted() -> Objective:
    """Return the complete bound with weight t^1.5, on an eighth of the pixels; with weights it is not a bound.

    In the unweighted bound, times close to the data dominate the gradient, and the shapes of digits, which are decided
    at t from 0.5 to 0.9, are learned late.
    """
    return subsampled(CompleteElbo(times=ReweightedTimes(0.01, power=1.5)))


def discrete_time(steps: int, *, site_fraction: float = 0.125, samples_per_time: int = 8) -> Objective:
    """Return D3PM's hybrid loss for the same noise at ``steps`` times; D3PM's published kernel differs slightly.

    Args:
        steps: The number of times.
        site_fraction: The fraction of sites, in (0, 1]. Default: 0.125.
        samples_per_time: Samples per time, >= 1. Default: 8.
    """
    return subsampled(DiscreteTimeElbo(steps) + DIRECT * CrossEntropy(), site_fraction, samples_per_time)


def subsampled(objective: Objective, site_fraction: float = 0.125, samples_per_time: int = 8) -> Objective:
    """Return the objective on some of the sites, because with 256 states it would cost more than a small network.

    Args:
        objective: The objective on all sites.
        site_fraction: The fraction of sites, in (0, 1]. Default: 0.125.
        samples_per_time: Samples per time, >= 1. Default: 8.
    """
    return Subsampled(objective, site_fraction=site_fraction, samples_per_time=samples_per_time)


def published_denoiser() -> Denoiser:
    """Return the denoiser of Appendix H.2 for 3 x 32 x 32: truncated logistic, U-Net with 35.7 million weights."""
    return TruncatedLogistic(UNet(LEVELS, 3), LEVELS)


def small_denoiser(labels: bool = False) -> Denoiser:
    """Return a denoiser for one channel and 28 x 28: truncated logistic, U-Net on patches with 2.3 million weights.

    The mask of observed pixels is part of its input.

    Args:
        labels: Whether it is class-conditional, with a null label for unconditional samples. Default: false.
    """
    return TruncatedLogistic(small_unet(LEVELS, labels), LEVELS)


def small_masked_denoiser(labels: bool = False) -> Denoiser:
    """Return the small U-Net for absorbing noise, with logits: a logistic could not be centred at a masked pixel.

    Args:
        labels: Whether it is class-conditional. Default: false.
    """
    states = LEVELS + 1
    network = small_unet(states, labels, outputs=states, output_kernel=1, masked=True)
    return NetworkDenoiser(network.init_smooth_())


def small_unet(states: int, labels: bool, **more: Any) -> UNet:
    """Return the U-Net for one channel and 28 x 28.

    Args:
        states: Number of states per pixel.
        labels: Whether the network is class-conditional.
        more: Other arguments of :class:`tauleap.network.UNet`.
    """
    given: dict[str, Any] = {
        "width": 48,
        "multipliers": (1, 2),
        "depth": 2,
        "attention_levels": (1,),
        "dropout": 0.0,
        "mark_observed": True,
        "patch": 2,  # at full resolution a convolution is most expensive and least useful
        "num_classes": DIGITS if labels else None,
    }
    return UNet(states, 1, **(given | more))


def published_settings() -> Settings:
    """Return the paper's settings: Adam with 2e-4, batches of 128, two million steps."""
    return paper_settings(batch_size=128, steps=2_000_000, samples=16)


def small_settings(steps: int = 10_000) -> Settings:
    """Return settings for an hour on two cores: small batches, cosine decay, half precision in the network.

    Args:
        steps: The number of steps, > 200. Default: 10,000.
    """
    return Settings(
        batch_size=64,
        lr=1e-3,
        warmup=200,
        decay=steps,
        ema=0.999,
        clip=1.0,
        precision="bf16-mixed",
        steps=steps,
        checkpoint_every=100,
        log_every=50,
        validate_every=1000,
        validation_rows=128,
    )


def published_sampler(correctors: int = 0) -> Sampler:
    """Return the paper's sampler: tau-leaping, with correctors for t < 0.1 (Section 6.2, Appendix H.2).

    tLDR-0 has a step of 0.001, ``uniform_grid(990)`` down to 0.01; tLDR-10 has one of 0.002, ``uniform_grid(495)``.

    Args:
        correctors: Corrector steps per step, >= 0, each 1.5 steps long. Default: 0.
    """
    leaps = TauLeaping("add")
    return leaps if correctors == 0 else WithCorrector(leaps, steps=correctors, scale=1.5, start=0.1)


def images(
    data: Callable[[], tuple[Dataset, Dataset | None]],
    *,
    shape: tuple[int, int, int],
    denoiser: Callable[[], Denoiser],
    settings: Settings,
    process: ForwardProcess | None = None,
    objective: Objective | None = None,
    prepare: Callable[[Batch, torch.Generator], Batch] | None = None,
    masking: RandomMasks | None = None,
    name: str = "images",
) -> Recipe:
    """Return a recipe for images (channels, height, width) of 256 levels.

    Args:
        data: Returns the training images, and the held-out images or None.
        shape: The shape of an image.
        denoiser: Returns the denoiser with its network.
        settings: The settings; :func:`published_settings` are the paper's.
        process: The forward process. Default: None, :func:`gaussian_noise`.
        objective: The loss. Default: None, :func:`one_pass`.
        prepare: Modifies each batch before noising, such as flips. Default: None.
        masking: Draws the observed pixels of each batch, for a model that completes images. Default: None.
        name: A name for messages. Default: "images".
    """
    noise, form = process or gaussian_noise(), ImageFormat(*shape)

    def model() -> Model:
        return Model(noise, denoiser(), shape=shape, form=form)

    return Recipe(
        name=name,
        data=data,
        model=model,
        objective=objective or one_pass(),
        settings=settings,
        prepare=prepare,
        masking=masking,
        picture=sheet,
    )


def cifar10(
    data: str | os.PathLike[str] | None = None, *, download: bool = False, objective: Objective | None = None
) -> Recipe:
    """Return the paper's recipe for CIFAR-10: 35.7 million weights, two million steps of 128 images.

    >>> cifar10("cifar-10-binary.tar.gz").settings.batch_size
    128

    Args:
        data: The binary archive, its folder, or an ``.npz``, see :func:`tauleap.data.cifar10`. Default: the cache.
        download: Whether to download the archive from its authors' site if it is not cached. Default: false.
        objective: The loss; ``CompleteElbo()`` has an unbiased gradient. Default: None, :func:`one_pass`.

    Returns:
        The recipe; the data is read when training starts.
    """

    def read() -> tuple[Dataset, Dataset]:
        train, test = sources.cifar10(data, download=download)
        return replace(train, condition=None), replace(test, condition=None)

    return images(
        read,
        shape=(3, 32, 32),
        denoiser=published_denoiser,
        settings=published_settings(),
        objective=objective,
        prepare=flip_left_right,
        name="cifar10",
    )


def mnist(
    data: str | os.PathLike[str] | Callable[[], tuple[Dataset, Dataset | None]],
    *,
    objective: Objective | None = None,
    process: ForwardProcess | None = None,
    denoiser: Callable[[], Denoiser] | None = None,
    settings: Settings | None = None,
    labels: bool | None = None,
    name: str = "mnist",
) -> Recipe:
    """Return a recipe for MNIST, 28 x 28 with all 256 levels: the image experiment for a CPU.

    The loss is the complete bound with weights in time. In one of five cases some pixels are observed, so that the
    model also completes images.

    >>> mnist("mnist.npz").settings.steps
    10000

    Args:
        data: A folder of idx files or an ``.npz``, see :func:`tauleap.data.mnist`, of which 1,000 training images are
            held out; or a function that returns the training images, and the held-out images or None.
        objective: The loss. Default: None, :func:`weighted`.
        process: The forward process. Default: None, :func:`gaussian_noise`.
        denoiser: Returns the denoiser with its network; :func:`small_masked_denoiser` is for :func:`absorbing_noise`.
            Default: None, :func:`small_denoiser`.
        settings: The settings. Default: None, :func:`small_settings`.
        labels: Whether the model is class-conditional: ``model.sample(n, condition=torch.full((n,), 7))``. In one of
            two cases the label is dropped, so that ``model.sample(n)`` works as well. Default: None, true without
            ``denoiser``, else false.
        name: A name for messages. Default: "mnist".

    Returns:
        The recipe; the data is read when training starts.

    Raises:
        ValueError: When training starts, if ``labels`` is true and the data has no class labels.
    """
    labels = denoiser is None if labels is None else labels

    def read() -> tuple[Dataset, Dataset | None]:
        rows, _ = sources.mnist(data)  # pyright: ignore[reportArgumentType] (it is no function)
        if labels and rows.condition is None:
            raise ValueError(f"{data} has no class labels (y_train): add them, or write mnist(..., labels=False)")
        train, held_out = rows.split(min(_HELD_OUT, len(rows) // 2))
        # bits/dim of the held-out images is unconditional.
        return train if labels else replace(train, condition=None), replace(held_out, condition=None)

    return images(
        data if callable(data) else read,
        shape=(1, 28, 28),
        denoiser=denoiser or partial(small_denoiser, labels),
        settings=settings or small_settings(),
        process=process,
        objective=objective or weighted(),
        prepare=LabelDropout(DIGITS) if labels else None,
        masking=RandomMasks(p_unconditional=0.8, spans=0.7),
        name=name,
    )


def sheet(x: Tensor) -> np.ndarray:
    """Return images side by side in a square, as bytes (height, width) or (height, width, 3).

    Args:
        x: Images (n, channels, height, width).
    """
    count, channels, height, width = x.shape
    side = math.ceil(count**0.5)
    tiles = torch.zeros(side * side, channels, height + 1, width + 1, dtype=torch.uint8)
    tiles[:count, :, :height, :width] = x.clamp(max=LEVELS - 1).to(torch.uint8)
    picture = tiles.reshape(side, side, channels, height + 1, width + 1).permute(0, 3, 1, 4, 2)
    picture = picture.reshape(side * (height + 1), side * (width + 1), channels)
    return (picture[..., 0] if channels == 1 else picture).contiguous().numpy()
