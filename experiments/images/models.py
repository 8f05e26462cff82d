"""The models of the experiment and their differences. All are trained with the label in one of two cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pictures import Pictures
from time_experts import denoiser_of_time_experts, early_denoiser, gradient_balanced, log_uniform

import tauleap as tl
from tauleap.denoise import Denoiser
from tauleap.network import TimeExperts
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.recipes.images import (
    absorbing_noise,
    discrete_time,
    gaussian_noise,
    mnist,
    small_denoiser,
    small_masked_denoiser,
    small_settings,
)
from tauleap.training import Recipe

D3PM_STEPS = 256
"""The largest number of evaluations, since a model in discrete time is trained for its number of steps."""
EARLIEST = 0.01
"""The time at which sampling ends; bits/dim needs a model that is trained from this time on."""


@dataclass(frozen=True)
class Entry:
    """A model of the table."""

    label: str
    objective: Objective
    process: Callable[[], ForwardProcess] = gaussian_noise
    denoiser: Callable[[bool], Denoiser] = small_denoiser
    begins_with: tuple[str, ...] = ()
    """Other models, one per network, whose weights are its initial weights."""
    steps: int = 700
    lr: float = 2e-4
    batch_size: int = 64

    @property
    def knows_all_times(self) -> bool:
        """Whether it is also trained at the earliest times, which bits/dim needs."""
        return self.objective.times.eps <= EARLIEST


PARTS: dict[str, Any] = {"denoiser": denoiser_of_time_experts, "begins_with": ("early", "late-on"), "batch_size": 32}
MODELS = {
    "early": Entry(
        "Gaussian noise, small network", log_uniform(), denoiser=early_denoiser, steps=2000, lr=1e-3, batch_size=32
    ),
    "late": Entry("Gaussian noise, late times", gradient_balanced(), steps=6000, lr=1e-3),
    "late-on": Entry(
        "Gaussian noise, late times, trained on", gradient_balanced(), begins_with=("late",), steps=2000, lr=5e-4
    ),
    "gaussian": Entry("Gaussian noise", log_uniform(), **PARTS),
    "d3pm-gaussian": Entry("D3PM Gauss", discrete_time(D3PM_STEPS, site_fraction=0.5, samples_per_time=4), **PARTS),
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
    """Return the recipe of a model; ``models`` is the folder of the others."""
    entry = MODELS[name]
    build = partial(entry.denoiser, True)
    settings = replace(small_settings(entry.steps), lr=entry.lr, batch_size=entry.batch_size)
    return mnist(
        pictures.to_train,
        process=entry.process(),
        denoiser=partial(with_trained_weights, build, [models / part for part in entry.begins_with])
        if entry.begins_with
        else build,
        objective=entry.objective,
        settings=settings if entry.knows_all_times else replace(settings, validate_every=None),
        labels=True,
        name=f"mnist, {entry.label}",
    )


def with_trained_weights(build: Callable[[], Denoiser], parts: Sequence[Path]) -> Denoiser:
    """Return a denoiser whose network, or each of its networks, has the weights of a trained model."""
    denoiser: Any = build()
    networks = denoiser.network.networks if isinstance(denoiser.network, TimeExperts) else [denoiser.network]
    for network, folder in zip(networks, parts, strict=True):
        part: Any = tl.load(folder).denoiser
        network.load_state_dict(part.network.state_dict())
    return denoiser
