"""The models of the experiment: one network, one set of numbers, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pictures import Pictures

from tauleap.denoise import Denoiser
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.recipes.images import (
    absorbing_noise,
    all_times_alike,
    discrete_time,
    gaussian_noise,
    mnist,
    small_denoiser,
    small_masked_denoiser,
    small_settings,
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


MODELS = {
    "gaussian": Entry("Gaussian noise, complete bound", gaussian_noise, small_denoiser, all_times_alike()),
    "d3pm-gaussian": Entry("D3PM Gauss", gaussian_noise, small_denoiser, discrete_time(D3PM_STEPS)),
    "d3pm-absorbing": Entry("D3PM absorbing", absorbing_noise, small_masked_denoiser, discrete_time(D3PM_STEPS)),
}


def recipe(name: str, pictures: Pictures) -> Recipe:
    entry = MODELS[name]
    return mnist(
        pictures.to_train,
        process=entry.process(),
        denoiser=entry.denoiser,
        objective=entry.objective,
        settings=small_settings(),
        name=f"mnist, {entry.label}",
    )
