"""Images as discrete data (Section 6.2, Appendix H.2): every intensity is a state, and nearby ones are neighbours.

The pieces of the experiment are functions: noise, objectives, networks and settings. :func:`images` puts them together,
so that the published run on CIFAR-10 and one for a CPU are one recipe.
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
    """sigma_0 = 512, sigma_r = 6, beta(t) = 3 * 100^t log 100."""
    return Gaussian(LEVELS, Exponential(3.0, 100.0), sigma_0=512.0, sigma_r=6.0)


def absorbing_noise() -> Absorbing:
    """Intensities are masked: the noise of the absorbing baseline."""
    return Absorbing(LEVELS + 1, LogLinear())


def one_pass() -> Objective:
    """L_eCT + 0.001 L_ll, what the paper trains with."""
    return PaperElbo(passes=1) + DIRECT * CrossEntropy()


def weighted() -> Objective:
    """The complete bound with the weight t^1.5 in time, at an eighth of the pixels: no bound any more.

    In the bound itself the times next to the data decide every step, and what the digits look like, for t from 0.5 to
    0.9, is learnt late.
    """
    return subsampled(CompleteElbo(times=ReweightedTimes(0.01, power=1.5)))


def discrete_time(steps: int, *, site_fraction: float = 0.125, samples_per_time: int = 8) -> Objective:
    """D3PM's hybrid loss: our noise cut at ``steps`` times, which is not quite the kernel that D3PM published."""
    return subsampled(DiscreteTimeElbo(steps) + DIRECT * CrossEntropy(), site_fraction, samples_per_time)


def subsampled(objective: Objective, site_fraction: float = 0.125, samples_per_time: int = 8) -> Objective:
    """Return the objective on some of the sites, because with 256 states it would cost more than a small network.

    Args:
        objective: the objective on all sites.
        site_fraction: the fraction of sites. Default: an eighth.
        samples_per_time: samples that share a time. Default: 8.
    """
    return Subsampled(objective, site_fraction=site_fraction, samples_per_time=samples_per_time)


def published_denoiser() -> Denoiser:
    """The U-Net of Appendix H.2 for 3 x 32 x 32, 35.7 million weights, and the truncated logistic."""
    return TruncatedLogistic(UNet(LEVELS, 3), LEVELS)


def small_denoiser(labels: bool = False) -> Denoiser:
    """For one channel and 28 x 28, 2.3 million weights: it begins at patches, and is told which pixels are given.

    With ``labels`` it is also told the digit, or that it is not known.
    """
    return TruncatedLogistic(small_unet(LEVELS, labels), LEVELS)


def small_masked_denoiser(labels: bool = False) -> Denoiser:
    """The small U-Net for absorbing noise: logits in the place of a logistic, which has nothing to be centred at."""
    states = LEVELS + 1
    network = small_unet(states, labels, outputs=states, output_kernel=1, masked=True)
    return NetworkDenoiser(network.init_smooth_())


def small_unet(states: int, labels: bool, **more: Any) -> UNet:
    """Return the U-Net for one channel and 28 x 28.

    Args:
        states: number of states of a pixel.
        labels: whether the network is class-conditional.
        more: other arguments of :class:`tauleap.network.UNet`.
    """
    given: dict[str, Any] = {
        "width": 48,
        "multipliers": (1, 2),
        "depth": 2,
        "attention_levels": (1,),
        "dropout": 0.0,
        "mark_observed": True,
        "patch": 2,  # at 28 x 28 a convolution costs most and sees least
        "num_classes": DIGITS if labels else None,
    }
    return UNet(states, 1, **(given | more))


def published_settings() -> Settings:
    """Adam with 2e-4, batches of 128, two million steps."""
    return paper_settings(batch_size=128, steps=2_000_000, samples=16)


def small_settings(steps: int = 10_000) -> Settings:
    """What two cores do in an hour: small batches, large steps that fall to the end, half precision in the network."""
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
    """Tau-leaping, and with ``correctors`` of 1.5 of the step for t < 0.1 (Section 6.2, Appendix H.2).

    tLDR-0 has a step of 0.001, ``uniform_grid(990)`` down to 0.01; tLDR-10 has one of 0.002, ``uniform_grid(495)``.
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
    """Images (channels, height, width) of 256 levels, Gaussian noise and L_eCT where nothing else is said.

    Args:
        data: gives the images to train and to validate with.
        shape: of one image.
        denoiser: builds it, with its network.
        settings: the numbers; :func:`published_settings` are the paper's.
        process: :func:`gaussian_noise`, :func:`absorbing_noise` or any other.
        objective: :func:`one_pass`, ``CompleteElbo()``, :func:`discrete_time`, ...
        prepare: what becomes of a batch before it is noised, such as flips.
        masking: which pixels are given while training, for a model that fills in.
        name: for messages.
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
    """The published run: 35.7 million weights, two million steps of 128 images and their mirror images.

    Args:
        data: what :func:`tauleap.data.cifar10` takes: the binary archive, its folder, or an ``.npz``.
        download: get the archive from its authors' site, if it is not in the cache.
        objective: :func:`one_pass` if absent; ``CompleteElbo()`` is the variant without bias.
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
    """28 x 28 with all 256 levels: the image experiment in the size of a CPU.

    It is trained with the complete bound, weighted in time, and pixels are given in one of five cases, so that it also
    fills in.

    Args:
        data: what :func:`tauleap.data.mnist` takes, a folder of idx files or an ``.npz``, of which some images to train
            with are held out; or a function that gives the images to train and to validate with.
        objective: :func:`weighted` if absent.
        process: :func:`gaussian_noise` if absent.
        denoiser: builds it, with its network; :func:`small_denoiser`, with ``labels`` or without, if absent;
            :func:`small_masked_denoiser` is for :func:`absorbing_noise`.
        settings: :func:`small_settings` if absent.
        labels: tell the network the digit, in one of two cases. It then draws a digit that is asked for by
            ``model.sample(n, condition=torch.full((n,), 7))``, and any by ``model.sample(n)``. If absent, the network
            of this recipe is told, and that of another ``denoiser``, which must take labels for it, is not.
        name: for messages.
    """
    labels = denoiser is None if labels is None else labels

    def read() -> tuple[Dataset, Dataset | None]:
        rows, _ = sources.mnist(data)  # pyright: ignore[reportArgumentType] (it is no function)
        if labels and rows.condition is None:
            raise ValueError(f"{data} has no digits (y_train) to tell: add them, or write mnist(..., labels=False)")
        train, held_out = rows.split(min(_HELD_OUT, len(rows) // 2))
        # bits/dim of those held out is that of pictures alone.
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
    """Images (n, channels, height, width) side by side in a square, as bytes (height, width) or (height, width, 3)."""
    count, channels, height, width = x.shape
    side = math.ceil(count**0.5)
    tiles = torch.zeros(side * side, channels, height + 1, width + 1, dtype=torch.uint8)
    tiles[:count, :, :height, :width] = x.clamp(max=LEVELS - 1).to(torch.uint8)
    picture = tiles.reshape(side, side, channels, height + 1, width + 1).permute(0, 3, 1, 4, 2)
    picture = picture.reshape(side * (height + 1), side * (width + 1), channels)
    return (picture[..., 0] if channels == 1 else picture).contiguous().numpy()
