"""Theorem 1 on an enumerable space: its constants, its three terms, and the true errors that they bound.

    TV(law of y_0, data) <= 3 M T + {(|R| S D C1)^2 + C2 (M + C1 S D |R|) / 2} tau T
                            + 2 exp(-T log^2 2 / (t_mix log 4D)),                         T = 1 here.

C1 and C2 are suprema over t in [0, 1], here over a grid of times from 0 on. The reverse rates come from the marginals
themselves, Rhat_t(x, y) = R(y, x) q_t(y) / q_t(x), which for a positive distribution is also defined at t = 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tauleap.evaluate.joint_space import joint_states, neighbour_numbers, neighbours
from tauleap.evaluate.pushforward import leap_laws, marginal, prior, push_sites
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess
from tauleap.testing.cases import total_variation

TIMES = [0.0, *torch.logspace(-4, 0, 160, dtype=torch.float64).tolist()]
_TIMES_AT_ONCE = 64


class Constants(NamedTuple):
    """The quantities of the bound: |R|, S, D, C1, C2 and t_mix."""

    exit_rate: float
    num_states: int
    sites: int
    c1: float
    c2: float
    t_mix: float

    def terms(self, tau: float, error: float = 0.0) -> dict[str, float]:
        """Return the three terms for steps of length ``tau`` and rates with a total error of at most M = ``error``."""
        reach = self.exit_rate * self.num_states * self.sites * self.c1
        return {
            "rates": 3 * error,
            "leaps": (reach**2 + self.c2 * (error + reach) / 2) * tau,
            "mixing": 2 * math.exp(-(math.log(2) ** 2) / (self.t_mix * math.log(4 * self.sites))),
        }


def constants(reverse: ReverseProcess, law: Tensor) -> Constants:
    """Return the constants for a process with a constant rate and a positive data distribution (S,)*D."""
    process = reverse.process
    return Constants(
        exit_rate=float(process.schedule.rate(1.0)) * float(process.generator().diagonal().abs().max()),
        num_states=process.num_states,
        sites=law.ndim,
        c1=max(largest_ratio(marginal(reverse, law, t)) for t in TIMES),
        c2=max(rate_change(true_rates(reverse, law, t)) for t in TIMES),
        t_mix=mixing_time(process),
    )


def true_rates(reverse: ReverseProcess, law: Tensor, t: float) -> Tensor:
    """Return Rhat_t at every joint state, (S^D, D, S), 0 at the current state of a site."""
    into = reverse.process.rates_into(joint_states(law.shape[0], law.ndim), t, dtype=torch.float64)
    q = marginal(reverse, law, t)
    return into * neighbours(q) / q.reshape(-1, 1, 1)


def largest_ratio(q: Tensor) -> float:
    """Return C1 at one time: max q(x) / q(y) over x, y that differ in at most one site."""
    return float((neighbours(q) / q.reshape(-1, 1, 1)).max())


def rate_change(rates: Tensor) -> float:
    """Return C2 at one time: max sum_z |Rhat(x, x + z) - Rhat(y, y + z)| over such x and y, including z = 0."""
    count, sites, size = rates.shape
    states = joint_states(size, sites)
    displacement = torch.arange(size) - states[..., None] + size - 1
    shifted = torch.zeros(count, sites, 2 * size - 1, dtype=rates.dtype).scatter_(-1, displacement, rates)
    flat = torch.cat([shifted.flatten(1), -rates.sum((-1, -2))[:, None]], dim=1)
    return max(
        float((flat - flat[other]).abs().sum(-1).max()) for other in neighbour_numbers(size, sites).flatten(1).unbind(1)
    )


def mixing_time(process: ForwardProcess) -> float:
    """Return inf {t: max_x TV(q_t|0(. | x), stationary law) <= 1/4} for one site, by bisection."""
    low, high = 0.0, 1.0
    while _distance(process, high) > 0.25:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _distance(process, middle) > 0.25 else (low, middle)
    return high / float(process.schedule.rate(1.0))


class Truth(NamedTuple):
    """True total variations, one for each term of the bound; their sum is at least ``whole``."""

    whole: float
    rates: float
    leaps: float
    mixing: float


def truth(reverse: ReverseProcess, law: Tensor, steps: int, error: float = 0.0) -> Truth:
    """Compute the exact errors of leaps of 1 / ``steps`` from the stationary law to t = 0, jumps added and clamped.

    whole: the distance to the data. rates: the effect of the error M at t = 0. leaps: the distance to the data with
    exact rates from q_1. mixing: the distance of q_1 and the stationary law.
    """
    noise, start = prior(reverse, law.ndim), marginal(reverse, law, 1.0)
    target = least_likely_neighbour(law) if error else None
    whole = leap_down(reverse, law, noise, steps, error, target)
    unperturbed = leap_down(reverse, law, noise, steps) if error else whole
    return Truth(
        whole=total_variation(whole, law),
        rates=total_variation(whole, unperturbed),
        leaps=total_variation(leap_down(reverse, law, start, steps), law),
        mixing=total_variation(start, noise),
    )


def least_likely_neighbour(law: Tensor) -> Tensor:
    """Return an indicator (S^D, D, S) of the jump from each x to the neighbour of smallest data probability."""
    around = neighbours(law)
    own = torch.nn.functional.one_hot(joint_states(law.shape[0], law.ndim), law.shape[0]).bool()
    where = around.masked_fill(own, math.inf).flatten(1).argmin(-1)
    return torch.nn.functional.one_hot(where, around[0].numel()).reshape(around.shape).to(law.dtype)


def leap_down(
    reverse: ReverseProcess, law: Tensor, start: Tensor, steps: int, error: float = 0.0, target: Tensor | None = None
) -> Tensor:
    """Return the distribution at t = 0 after leaps from ``start`` with the rates Rhat + ``error`` times ``target``."""
    x = joint_states(law.shape[0], law.ndim)
    times = torch.arange(steps, 0, -1, dtype=torch.float64) / steps
    for some in times.split(max(1, _TIMES_AT_ONCE * 64 // len(x))):
        states = x.repeat(len(some), 1)
        rates = reverse.rates(states, some.repeat_interleave(len(x)))
        if target is not None:
            rates = rates + error * target.repeat(len(some), 1, 1)
        for laws in leap_laws(rates, states, 1 / steps, "add").split(len(x)):
            start = push_sites(start.reshape(-1), laws)
    return start


def _distance(process: ForwardProcess, c: float) -> float:
    kernel = process.exponential(torch.tensor([c], dtype=torch.float64))[0]
    return float((kernel - process.stationary()).abs().sum(-1).max()) / 2
