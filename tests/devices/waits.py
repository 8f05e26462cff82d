"""How often the host waits for a device: per network evaluation of a sampler, and per training step."""

from __future__ import annotations

from collections.abc import Callable

import torch

import tauleap as tl
from tauleap import ReverseProcess
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.sampling import Sampler, uniform_grid
from tests import simulated
from tests.devices.parts import SITES, data, model, move

ROWS = 12


def waits_per_evaluation(device: torch.device, process: ForwardProcess, sampler: Sampler) -> float:
    """Return how often the host waits per evaluation of the network, once the kernels of the grid's times are known.

    Reading the result and checking the arguments is not counted: the difference of two lengths of the grid is.
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

    (few, first), (many, second) = run(2), run(5)
    return (many - few) / (second - first)


def waits_per_step(device: torch.device, process: ForwardProcess, objective: Objective) -> float:
    """Return how often the host waits per step of an optimiser, the first one not counted."""
    reverse: ReverseProcess = move(model(process), device)
    step = _training_step(reverse, data(process).to(device), objective, torch.Generator(device).manual_seed(0))
    step()
    with simulated.waits() as found:
        step()
        step()
    return found.total() / 2


def _training_step(
    reverse: ReverseProcess, x0: torch.Tensor, objective: Objective, generator: torch.Generator
) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(reverse.parameters())

    def step() -> None:
        optimizer.zero_grad()
        objective(reverse, x0, generator=generator).mean().backward()
        optimizer.step()

    return step
