"""One tuple of all processes, small enough for brute force: what every suite runs over.

Add a line here for a new process, and it is tested in noising, reversal and whatever else is driven by this tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Cosine,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Uniform,
)


class Example(NamedTuple):
    """Hold a process to test, and the properties that are claimed.

    >>> example = Example("two states", lambda: Uniform(2, Constant(1.0)), shape=(3,))
    >>> example.make().num_states, example.reversible
    (2, True)
    """

    name: str
    make: Callable[[], ForwardProcess]
    shape: tuple[int, ...] | None = None
    """The shape that data must have, where the process fixes it."""
    reversible: bool = True
    """Whether it is in detailed balance with its stationary law."""
    prior_is_stationary: bool = True

    def __repr__(self) -> str:
        return self.name


def _generator(rates: Tensor) -> Tensor:
    rates = rates.to(torch.float64).clone().fill_diagonal_(0.0)
    return rates - torch.diag(rates.sum(1))


def _random(size: int, seed: int) -> Tensor:
    return torch.rand(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def cycle(size: int) -> Tensor:
    """Return rates from every state to the next one only, far from detailed balance."""
    return _generator(torch.eye(size).roll(1, dims=1))


def reversible(size: int, seed: int = 0) -> Tensor:
    """Return random rates in detailed balance with a random law."""
    weights, law = _random(size, seed), _random(size, seed + 1)[0] + 0.05
    return _generator((weights + weights.mT) / law[:, None])


def ladder(size: int) -> Tensor:
    """Return unequal rates one state up and down, in detailed balance, without jumps over a state."""
    up = torch.linspace(0.5, 2.0, size - 1)
    return _generator(torch.diag(up, 1) + torch.diag(up.flip(0) ** 2, -1))


def one_way() -> Tensor:
    """Return rates that leave states 0 and 1 for good; 2, 3 and 4 form a cycle."""
    rates = torch.zeros(5, 5)
    for start, end, rate in [(0, 1, 2.0), (0, 3, 0.1), (1, 2, 1.0), (2, 3, 0.5), (3, 4, 3.0), (4, 2, 1.0)]:
        rates[start, end] = rate
    return _generator(rates)


def two_islands() -> Tensor:
    """Return rates without a jump between {0, 1} and {2, 3}, so that the stationary law is not unique."""
    rates = torch.zeros(4, 4)
    rates[0, 1], rates[1, 0], rates[2, 3], rates[3, 2] = 1.0, 2.0, 0.5, 0.5
    return _generator(rates)


def stiff() -> Tensor:
    """Return rates from a thousandth to a hundred."""
    return _generator(10.0 ** (5 * _random(4, 7) - 3))


PER_SITE = torch.tensor([[0.2, 0.3, 0.5, 0.0], [0.9, 0.0, 0.0, 0.1], [0.25, 0.25, 0.25, 0.25]])
"""Laws of three sites with 3, 2 and 4 states."""

HYBRID = torch.tensor([0.05, 0.1, 0.05, 0.8])
"""Mask and uniform noise together: the last state is the mask."""

ISLANDS_LAW = torch.tensor([0.5, 0.25, 0.125, 0.125])

PROCESSES: tuple[Example, ...] = (
    Example("uniform", lambda: Uniform(4, Constant(0.6))),
    Example("uniform-of-two", lambda: Uniform(2, Exponential(0.2, 20.0))),
    Example("absorbing", lambda: Absorbing(4, LogLinear()), prior_is_stationary=False),
    Example("absorbing-mask-1", lambda: Absorbing(5, Cosine(), mask=1), prior_is_stationary=False),
    Example("absorbing-little", lambda: Absorbing(3, Constant(0.5), mask=0), prior_is_stationary=False),
    Example(
        "absorbing-per-site",
        lambda: Absorbing(4, LogLinear(), mask=1, sizes=torch.tensor([3, 1, 2])),
        shape=(3,),
        prior_is_stationary=False,
    ),
    Example("birth-death", lambda: BirthDeath(6, Exponential(0.5, 100.0), rate=0.7)),
    Example("birth-death-of-two", lambda: BirthDeath(2, Constant(3.0))),
    Example("gaussian", lambda: Gaussian(6, Exponential(5.0, 5.0), sigma_0=1.5, sigma_r=1.0)),
    Example("gaussian-narrow", lambda: Gaussian(5, Constant(2.0), sigma_0=0.3, sigma_r=2.0)),
    Example("rank-one-skewed", lambda: RankOne(torch.tensor([0.9, 0.09, 0.0099, 0.0001]), Cosine())),
    Example("rank-one-hole", lambda: RankOne(torch.tensor([0.3, 0.0, 0.7]), Exponential(1.0, 8.0))),
    Example("rank-one-per-site", lambda: RankOne(PER_SITE, LogLinear()), shape=(3,)),
    Example("rank-one-grid", lambda: RankOne(PER_SITE[1:, None], Constant(2.0)), shape=(2, 1)),
    Example("rank-one-hybrid", lambda: RankOne(HYBRID, LogLinear(), data_states=HYBRID < 0.5)),
    Example(
        "rank-one-hybrid-per-site",
        lambda: RankOne(PER_SITE, Cosine(), data_states=(PER_SITE > 0) & (PER_SITE < 0.5)),
        shape=(3,),
    ),
    Example("dense-cycle", lambda: Dense(cycle(4), Constant(2.0)), reversible=False),
    Example("dense-random", lambda: Dense(_generator(_random(5, 3)), LogLinear()), reversible=False),
    Example("dense-reversible", lambda: Dense(reversible(5), Exponential(1.0, 50.0))),
    Example("dense-ladder", lambda: Dense(ladder(9), Exponential(2.0, 3.0), ordinal=True)),
    Example("dense-one-way", lambda: Dense(one_way(), Constant(3.0)), reversible=False),
    Example("dense-islands", lambda: Dense(two_islands(), Cosine(), prior=ISLANDS_LAW)),
    Example("dense-stiff", lambda: Dense(stiff(), Constant(1.5)), reversible=False),
)
