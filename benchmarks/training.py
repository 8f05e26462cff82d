"""A training step, with data, noise and objective, against the network's own forward and backward pass and Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import Row, benchmark, side_by_side
from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser, TruncatedLogistic
from tauleap.model import Model
from tauleap.network import MusicTransformer, Network, UNet
from tauleap.noise import Constant, Exponential, Gaussian, Uniform
from tauleap.objective import CompleteElbo, CrossEntropy, Loss, Objective, PaperElbo
from tauleap.recipes import toy_paper
from tauleap.training import Recipe, Run, Settings
from tauleap.training.engine import Engine

LATE = 100_000  # the ramp of the average is over


@benchmark
def toy() -> Iterator[Row]:
    """The published network and batch; the recipe ``toy`` has others."""
    recipe = replace(toy_paper(), objective=CompleteElbo())
    data, _ = recipe.data()
    ours, plain = side_by_side(*_steps(recipe, data), seconds=8.0)
    yield Row("toy, batch 32: training step against the network's own", ours / plain, "x", at_most=1.7)
    yield Row("toy, batch 32: throughput, one thread", 1 / ours, "steps/s")
    bare = replace(recipe, objective=_Bare())
    ours, plain = side_by_side(*_steps(bare, data))
    yield Row("toy, batch 32: the same with a loss that costs nothing", ours / plain, "x")


@benchmark
def music() -> Iterator[Row]:
    rows = torch.randint(129, (64, 256), generator=torch.Generator().manual_seed(0))

    def model() -> Model:
        return Model(Uniform(129, Constant(0.03)), NetworkDenoiser(MusicTransformer()))

    recipe = _recipe("music", model, CompleteElbo(), rows, 129, batch_size=16)
    ours, plain = side_by_side(*_steps(recipe, Dataset(rows, 129)), seconds=0.0, rounds=2)
    yield Row("music, batch 16: training step against the network's own", ours / plain, "x", at_most=1.1)
    t = torch.rand(16)
    dropping, plain = MusicTransformer(), MusicTransformer(dropout=0.0)
    ours, theirs = side_by_side(lambda: dropping(rows[:16], t), lambda: plain(rows[:16], t), seconds=0.0, rounds=2)
    yield Row("music, batch 16: forward pass in training, dropout 0.1 against none", ours / theirs, "x", at_most=1.5)


@benchmark
def images() -> Iterator[Row]:
    rows = torch.randint(256, (16, 3, 32, 32), generator=torch.Generator().manual_seed(0))

    def model() -> Model:
        return Model(Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0), TruncatedLogistic(UNet(), 256))

    objectives = {"complete bound": CompleteElbo(), "the paper's": PaperElbo(passes=1) + 0.001 * CrossEntropy()}
    for name, objective in objectives.items():
        recipe = _recipe("images", model, objective, rows, 256, batch_size=8)
        ours, plain = side_by_side(*_steps(recipe, Dataset(rows, 256)), seconds=0.0, rounds=1)
        yield Row(f"images, batch 8, {name}: training step against the network's own", ours / plain, "x", at_most=1.15)


class _Bare(Objective):
    """The network's output, summed."""

    def evaluate(self, draw) -> Loss:
        value = draw.reverse.denoiser.network(draw.x0, torch.full((len(draw.x0),), 0.5)).flatten(1).sum(1)
        return Loss(value, {"all": value})


def _recipe(
    name: str, model: Callable[[], Model], objective: Objective, rows: Tensor, num_states: int, *, batch_size: int
) -> Recipe:
    settings = Settings(batch_size=batch_size, lr=2e-4)
    return Recipe(name, lambda: (Dataset(rows, num_states), None), model, objective, settings)


def _steps(recipe: Recipe, data: Dataset) -> tuple[Callable[[], object], Callable[[], object]]:
    """A step of training, and a step of a network like its own by hand."""
    fabric = Run(out=Path(), device="cpu").launch("32-true")
    engine = Engine(fabric, recipe, recipe.model(), data)
    steps = count(LATE)
    network: Network = recipe.model().denoiser.network
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.settings.lr, fused=True)
    x, t = data.rows(torch.arange(recipe.settings.batch_size)), torch.rand(recipe.settings.batch_size)

    def plain() -> None:
        network(x, t).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return lambda: engine.step(next(steps)), plain
