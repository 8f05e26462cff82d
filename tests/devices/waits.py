"""How often the host waits for a device: per network evaluation of a sampler, and per training step."""

from __future__ import annotations

import copy

import torch

import tauleap as tl
from tauleap import Model
from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.sampling import Sampler, uniform_grid
from tauleap.training import Recipe, Run, Settings
from tauleap.training.engine import Engine
from tests import simulated
from tests.devices.parts import SITES, Network, data, model, move

ROWS = 12


def waits_per_evaluation(
    device: torch.device, process: ForwardProcess, sampler: Sampler, *, in_all: bool = False
) -> float:
    """Return how often the host waits per evaluation of the network, once the kernels of the grid's times are known.

    Reading the result and checking the arguments is not counted: the difference of two lengths of the grid is. Where
    the number of evaluations does not follow from the grid, ``in_all`` counts all waits of one run.
    """
    reverse, calls = move(model(process), device), 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    reverse.denoiser.register_forward_hook(count)

    def run(steps: int) -> tuple[int, int]:
        nonlocal calls
        generator = torch.Generator(device).manual_seed(0)
        tl.sample(reverse, sampler, (ROWS, SITES), grid=uniform_grid(steps, end=0.05), generator=generator)
        generator.manual_seed(0)
        calls = 0
        with simulated.waits() as found:
            tl.sample(reverse, sampler, (ROWS, SITES), grid=uniform_grid(steps, end=0.05), generator=generator)
        return found.total(), calls

    (few, first), (many, second) = run(1), run(4)
    return many / second if in_all else (many - few) / (second - first)


def waits_per_step(device: torch.device, process: ForwardProcess, objective: Objective) -> float:
    """Return how often the host waits per step of training, blocking copies to the device included."""
    x0 = data(process)
    rows = Dataset(x0, num_states=int(x0.max()) + 1)
    recipe = Recipe(
        "waits",
        lambda: (rows, None),
        lambda: Model(copy.deepcopy(process), NetworkDenoiser(Network(process.num_states)), shape=(SITES,)),
        objective,
        Settings(batch_size=len(x0), lr=1e-3),
    )
    engine = Engine(Run(out="", device=str(device)).launch("32-true"), recipe, recipe.model(), rows)
    engine.step(0)  # the kernels and buffers that are made once
    with simulated.waits() as waits, simulated.uploads() as uploads:
        engine.step(1)
        engine.step(2)
    return (waits.total() + uploads.total()) / 2
