"""The models of the experiment, and what differs between them. All are told the digit in one of two cases."""

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
    as_loud_at_all_times,
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
    objective: Objective
    process: Callable[[], ForwardProcess] = gaussian_noise
    denoiser: Callable[[bool], Denoiser] = small_denoiser
    begins_with: str | None = None
    """Another model, whose weights it takes, to be trained on."""
    steps: int = 800
    lr: float = 2e-4


MODELS = {
    "first": Entry("Gaussian noise, bound weighted by t^1.5", weighted(), steps=4000, lr=1e-3),
    "weighted": Entry(
        "Gaussian noise, as loud at all times", as_loud_at_all_times(), begins_with="first", steps=7000, lr=8e-4
    ),
    "gaussian": Entry("Gaussian noise", even_in_log_time(), begins_with="weighted"),
    "d3pm-gaussian": Entry("D3PM Gauss", discrete_time(D3PM_STEPS), begins_with="weighted"),
    "d3pm-absorbing": Entry(
        "D3PM absorbing",
        discrete_time(D3PM_STEPS),
        absorbing_noise,
        small_masked_denoiser,
        steps=3000,
        lr=1e-3,
    ),
}


def recipe(name: str, pictures: Pictures, models: Path) -> Recipe:
    """How a model is trained; ``models`` is the folder of the others."""
    entry = MODELS[name]
    before = None if entry.begins_with is None else models / entry.begins_with
    build = partial(entry.denoiser, True)
    return mnist(
        pictures.to_train,
        process=entry.process(),
        denoiser=build if before is None else partial(trained, build, before),
        objective=entry.objective,
        settings=replace(small_settings(entry.steps), lr=entry.lr),
        labels=True,
        name=f"mnist, {entry.label}",
    )


def trained(build: Callable[[], Denoiser], folder: Path) -> Denoiser:
    """A denoiser with the weights of a model that was trained before."""
    made = build()
    made.load_state_dict(tl.load(folder).denoiser.state_dict())
    return made
