"""The models of the experiment, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pictures import Pictures

import tauleap as tl
from tauleap.denoise import Denoiser
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.recipes.images import (
    absorbing_noise,
    discrete_time,
    even_in_log_time,
    gaussian_noise,
    mnist,
    small_denoiser,
    small_masked_denoiser,
    small_settings,
    weighted,
)
from tauleap.training import Recipe

D3PM_STEPS = 256
"""As many as the largest number of evaluations: a model in discrete time is trained for its number of steps."""


@dataclass(frozen=True)
class Entry:
    """A model of the table."""

    label: str
    process: Callable[[], ForwardProcess]
    denoiser: Callable[[], Denoiser]
    objective: Objective
    begins_with: str | None = None
    """Another model, whose weights it takes, to be trained on."""
    steps: int = 10_000
    lr: float = 1e-3


MODELS = {
    "first": Entry("Gaussian noise, weighted bound, first", gaussian_noise, small_denoiser, weighted()),
    "weighted": Entry(
        "Gaussian noise, weighted bound", gaussian_noise, small_denoiser, weighted(), "first", steps=12_000, lr=7e-4
    ),
    "gaussian": Entry(
        "Gaussian noise", gaussian_noise, small_denoiser, even_in_log_time(), "weighted", steps=1200, lr=2e-4
    ),
    "d3pm-gaussian": Entry(
        "D3PM Gauss", gaussian_noise, small_denoiser, discrete_time(D3PM_STEPS), "weighted", steps=1200, lr=2e-4
    ),
    "d3pm-absorbing": Entry("D3PM absorbing", absorbing_noise, small_masked_denoiser, discrete_time(D3PM_STEPS)),
}


def recipe(name: str, pictures: Pictures, models: Path) -> Recipe:
    """How a model is trained; ``models`` is the folder of the others."""
    entry = MODELS[name]
    return mnist(
        pictures.to_train,
        process=entry.process(),
        denoiser=entry.denoiser if entry.begins_with is None else partial(trained, models / entry.begins_with),
        objective=entry.objective,
        settings=replace(small_settings(entry.steps), lr=entry.lr),
        name=f"mnist, {entry.label}",
    )


def trained(folder: Path) -> Denoiser:
    """The denoiser of a model that was trained before."""
    return tl.load(folder).denoiser.train()
