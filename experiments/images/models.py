"""The models of the experiment, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

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
    labelled_denoiser,
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

    labels: bool = False
    """Whether it is told the digit, in one of two cases."""


OURS: dict[str, Any] = {"process": gaussian_noise, "denoiser": labelled_denoiser, "labels": True}
MODELS = {
    "first": Entry("Gaussian noise, weighted bound, no labels", gaussian_noise, small_denoiser, weighted()),
    "weighted": Entry(
        "Gaussian noise, weighted bound", objective=weighted(), begins_with="first", steps=12_000, lr=7e-4, **OURS
    ),
    "gaussian": Entry(
        "Gaussian noise", objective=even_in_log_time(), begins_with="weighted", steps=1200, lr=2e-4, **OURS
    ),
    "d3pm-gaussian": Entry(
        "D3PM Gauss", objective=discrete_time(D3PM_STEPS), begins_with="weighted", steps=1200, lr=2e-4, **OURS
    ),
    "d3pm-absorbing": Entry("D3PM absorbing", absorbing_noise, small_masked_denoiser, discrete_time(D3PM_STEPS)),
}


def recipe(name: str, pictures: Pictures, models: Path) -> Recipe:
    """How a model is trained; ``models`` is the folder of the others."""
    entry = MODELS[name]
    before = None if entry.begins_with is None else models / entry.begins_with
    return mnist(
        partial(pictures.to_train, entry.labels),
        process=entry.process(),
        denoiser=entry.denoiser if before is None else partial(trained, entry.denoiser, before),
        objective=entry.objective,
        settings=replace(small_settings(entry.steps), lr=entry.lr),
        labels=entry.labels,
        name=f"mnist, {entry.label}",
    )


def trained(build: Callable[[], Denoiser], folder: Path) -> Denoiser:
    """A denoiser with the weights of a model that was trained before; labels that it did not know begin at nothing."""
    made = build()
    missing, unexpected = made.load_state_dict(tl.load(folder).denoiser.state_dict(), strict=False)
    if unexpected or not set(missing) <= {"network.classes.weight"}:
        raise ValueError(f"the weights in {folder} are of another network: {[*missing, *unexpected]}")
    return made
