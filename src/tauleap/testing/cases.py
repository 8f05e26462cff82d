"""Small reverse processes with the exact posterior, for tests and diagnostics of samplers."""

from __future__ import annotations

import math
from typing import get_args

import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, ForwardProcess, Gaussian, LogLinear, RankOne, Uniform
from tauleap.reverse import ReverseProcess
from tauleap.sampling.tau_leaping import MultipleJumps
from tauleap.testing.laws import random_law


def process(name: str, num_states: int = 3) -> ForwardProcess:
    """Return one of the paper's four kinds of noise, with ``num_states`` data states."""
    if name == "uniform":
        return Uniform(num_states, Constant(2.0 / num_states))
    if name == "absorbing":
        return Absorbing(num_states + 1, Constant(3.0))
    if name == "birth/death":
        return BirthDeath(num_states, Constant(3.0))
    if name == "Gaussian":
        return Gaussian(num_states, Constant(2.0), sigma_0=num_states / 2.5, sigma_r=1.0)
    raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")


NAMES = ("uniform", "absorbing", "birth/death", "Gaussian")
LEAPS: tuple[tuple[str, MultipleJumps], ...] = tuple(
    (name, how) for name in NAMES for how in get_args(MultipleJumps) if how != "add" or process(name).ordinal
)
"""Each of them with every treatment of several jumps that it allows."""


def of_every_kind() -> dict[str, ForwardProcess]:
    """Return processes of four states for every formula; the one with a law per site has two sites."""
    size = 4
    cycle = torch.eye(size).roll(1, 1) - torch.eye(size)
    to_last = torch.zeros(size, size).index_fill_(1, torch.tensor([size - 1]), 1.0) - torch.eye(size)
    laws = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.5, 0.0]], dtype=torch.float64)
    return {
        "uniform": Uniform(size, Constant(0.7)),
        "absorbing": Absorbing(size, LogLinear()),
        "absorbing, first state": Absorbing(size, LogLinear(), mask=0),
        "rank one": RankOne(laws[0], LogLinear()),
        "rank one by site": RankOne(laws, LogLinear()),
        "hybrid": RankOne(laws[0], LogLinear(), data_states=laws[0] < 0.4),
        "birth/death": BirthDeath(size, Constant(1.3)),
        "gaussian": Gaussian(size, Constant(1.0), sigma_0=2.0, sigma_r=1.0),
        "cycle": Dense(cycle, Constant(1.0)),
        "absorbing as a matrix": Dense(to_last, Constant(1.5)),
    }


def correlated(name: str, sites: int, num_states: int = 3, seed: int = 1) -> tuple[ReverseProcess, Tensor]:
    """Return a reverse process and the law of its data, (S,)*D, in which the sites depend on each other."""
    forward = process(name, num_states)
    law = random_law(forward.data_states.expand(sites, -1), seed)
    return ReverseProcess(forward, ExactDenoiser(law, forward)), law


def smooth(name: str, sites: int, num_states: int = 6) -> tuple[ReverseProcess, Tensor]:
    """Return a reverse process and a law of data that changes little from state to state."""
    forward = process(name, num_states)
    place = torch.linspace(-1.0, 1.0, num_states, dtype=torch.float64)
    axes = torch.meshgrid(*[place] * sites, indexing="ij")
    total = torch.stack(axes).sum(0)
    law = torch.exp(-0.7 * sum(axis**2 for axis in axes) + 0.3 * axes[0] + 0.2 * (total**2))
    law = law / law.sum()
    return ReverseProcess(forward, ExactDenoiser(law, forward)), law


def draws(law: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Draw joint states (number, D) from ``law`` (S,)*D."""
    drawn = torch.multinomial(law.reshape(-1), number, replacement=True, generator=generator)
    return torch.stack([drawn // law.shape[0] ** place % law.shape[0] for place in reversed(range(law.ndim))], dim=-1)


def counts(x: Tensor, law: Tensor) -> Tensor:
    """Return the number of times that each joint state occurs in x (n, D), in the order of the flattened law."""
    places = law.shape[0] ** torch.arange(law.ndim - 1, -1, -1)
    return torch.bincount((x.flatten(1) * places).sum(1), minlength=law.numel())


def total_variation(one: Tensor, other: Tensor) -> float:
    return 0.5 * (one - other).abs().sum().item()


def hellinger(one: Tensor, other: Tensor) -> float:
    """Return the Hellinger distance sqrt(1 - sum sqrt(p q)), in [0, 1]."""
    return math.sqrt(max(0.0, 1 - (one * other).sqrt().sum().item()))


def slope(sizes: list[float], errors: list[float]) -> float:
    """Return the power with which the errors fall, by regression of log error on log size."""
    x, y = torch.tensor(sizes, dtype=torch.float64).log(), torch.tensor(errors, dtype=torch.float64).log()
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())
