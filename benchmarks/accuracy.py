"""Errors of kernels and rates, at the settings of the paper's experiments.

The reference for kernels is the series ``exp(c R) = sum_k Poisson(k; lam c) (I + R / lam)^k`` in numpy's longdouble (64
bits of mantissa on x86): it adds and multiplies nonnegative numbers only, so every entry has a small relative error.
The reference for rates sums over the whole joint space with those kernels: ``R_t(v, x) q_t(x with v) / q_t(x)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from benchmarks import FixedLogits, Row, benchmark
from tauleap import ReverseProcess
from tauleap.denoise import ExactDenoiser
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

_TIMES = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)
_SMALLEST = 1e-30
_TERMS = 80  # At lam c <= 1 the truncated terms are below 1 / 80! = 1e-119.
_LARGEST_LOGIT = 3e38

Total = Callable[[np.longdouble], np.longdouble]
"""c(t) in longdouble."""


def _exponential(a: float, b: float) -> Total:
    return lambda t: a * np.expm1(t * np.log(np.longdouble(b)))


def _constant(beta: float) -> Total:
    return lambda t: np.longdouble(beta) * t


def _from_fraction(fraction: Callable[[np.longdouble], np.longdouble]) -> Total:
    return lambda t: -np.log1p(-(1 - np.longdouble(1e-3)) * fraction(t))


_log_linear = _from_fraction(lambda t: t)
_cosine = _from_fraction(lambda t: np.sin(np.longdouble("3.14159265358979323846") / 2 * t))


class Reference:
    """exp(c(t) R_b) of one process in longdouble."""

    def __init__(self, process: ForwardProcess, total: Total) -> None:
        self.total = total
        self.rates = process.generator().numpy().astype(np.longdouble)
        np.fill_diagonal(self.rates, 0)
        self.exits = self.rates.sum(1)
        self.fastest = self.exits.max()

    @cached_property
    def powers(self) -> np.ndarray:
        step = self.rates / self.fastest
        np.fill_diagonal(step, (self.fastest - self.exits) / self.fastest)
        out = [np.eye(len(step), dtype=np.longdouble)]
        for _ in range(_TERMS):
            out.append(out[-1] @ step)
        return np.stack(out)

    def kernel(self, t: float) -> np.ndarray:
        mean = self.fastest * self.total(np.longdouble(t))
        squarings = max(0, math.ceil(math.log2(mean)))
        mean = mean / np.longdouble(2) ** squarings
        weights = np.exp(-mean) * np.cumprod([np.longdouble(1), *(mean / k for k in range(1, _TERMS + 1))])
        out = np.tensordot(weights, self.powers, axes=1)
        for _ in range(squarings):
            out = out @ out
        return out


def _worst(value: np.ndarray, truth: np.ndarray) -> float:
    """The largest relative error where the truth is above 1e-30."""
    counts = truth > _SMALLEST
    errors = np.abs(value[counts] / truth[counts] - 1)
    return float(np.where(np.isnan(errors), np.inf, errors).max(initial=0.0))


@benchmark
def kernels() -> Iterator[Row]:
    skewed = torch.arange(1.0, 41.0, dtype=torch.float64) ** 3
    cases: dict[str, tuple[ForwardProcess, Total]] = {
        "toy, Gaussian": (Gaussian(32, Exponential(5.0, 5.0), 8.0, 1.0), _exponential(5, 5)),
        "images, Gaussian": (Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0), _exponential(3, 100)),
        "music, uniform": (Uniform(129, Constant(0.03)), _constant(0.03)),
        "music, birth/death": (BirthDeath(129, Exponential(0.5, 10_000)), _exponential(0.5, 10_000)),
        "absorbing, log-linear": (Absorbing(129, LogLinear()), _log_linear),
        "rank one, cosine": (RankOne(skewed / skewed.sum(), Cosine()), _cosine),
        "dense, a cycle": (Dense(_cycle(9), Exponential(5.0, 5.0)), _exponential(5, 5)),
    }
    for name, (process, total) in cases.items():
        reference, states = Reference(process, total), torch.arange(process.num_states)
        worst = 0.0
        for t in _TIMES:
            ours = process.kernel_from(states[:, None], t, dtype=torch.float64).squeeze(1)
            worst = max(worst, _worst(ours.numpy(), reference.kernel(t)))
        yield Row(f"kernel, {name}", worst, "relative error", at_most=1e-8)


def _cycle(states: int) -> Tensor:
    """Return a generator that moves in one direction around a circle at different rates: no detailed balance."""
    rates = torch.diag(torch.linspace(0.1, 3.0, states, dtype=torch.float64)).roll(1, 1)
    return rates - torch.diag(rates.sum(1))


@benchmark
def exact_rates() -> Iterator[Row]:
    skewed = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    cases: dict[str, tuple[ForwardProcess, Total, int]] = {
        "toy, Gaussian, 2 sites": (Gaussian(32, Exponential(5.0, 5.0), 8.0, 1.0), _exponential(5, 5), 2),
        "images, Gaussian, 1 site": (Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0), _exponential(3, 100), 1),
        "music, uniform, 2 sites": (Uniform(129, Constant(0.03)), _constant(0.03), 2),
        "music, birth/death, 2 sites": (BirthDeath(129, Exponential(0.5, 10_000)), _exponential(0.5, 10_000), 2),
        "absorbing, log-linear, 3 sites": (Absorbing(5, LogLinear()), _log_linear, 3),
        "rank one, cosine, 3 sites": (RankOne(skewed, Cosine()), _cosine, 3),
        "dense, a cycle, 3 sites": (Dense(_cycle(5), Exponential(5.0, 5.0)), _exponential(5, 5), 3),
    }
    for name, (process, total, sites) in cases.items():
        pmf = torch.rand((process.num_states,) * sites, dtype=torch.float64)
        for site in range(sites):
            pmf.movedim(site, -1)[..., ~process.data_states] = 0.0
        pmf /= pmf.sum()
        reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
        reference = Reference(process, total)
        worst = max(_rates_error(reverse, reference, pmf, t) for t in _TIMES)
        yield Row(f"rates, {name}, exact denoiser", worst, "relative error", at_most=1e-8)


def _rates_error(reverse: ReverseProcess, reference: Reference, pmf: Tensor, t: float) -> float:
    """Return the largest error over every reachable state of the joint space."""
    size, sites = pmf.shape[0], pmf.ndim
    kernel = reference.kernel(t)
    law = pmf.numpy().astype(np.longdouble)
    for site in range(sites):
        law = np.moveaxis(np.moveaxis(law, site, -1) @ kernel, -1, site)
    x = torch.cartesian_prod(*[torch.arange(size)] * sites).reshape(-1, sites)
    beta = float(reverse.process.schedule.rate(t))
    worst = 0.0
    for block in x.split(2**21 // (size * sites)):
        here = law[tuple(block.T.numpy())]
        possible = here > 0
        block, here = block[torch.from_numpy(possible)], here[possible]
        ours = reverse.rates(block, t).numpy()
        for site in range(sites):
            there = np.moveaxis(law, site, -1)[tuple(np.delete(block.T.numpy(), site, axis=0))]
            truth = beta * reference.rates.T[block[:, site].numpy()] * there / here[:, None]
            worst = max(worst, _worst(ours[:, site], truth))
    return worst


@benchmark
def narrow_rates() -> Iterator[Row]:
    """Compare the results of the same logits in float32 and in float64."""
    cases: dict[str, ForwardProcess] = {
        "toy, Gaussian": Gaussian(32, Exponential(5.0, 5.0), 8.0, 1.0),
        "images, Gaussian": Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0),
        "music, uniform": Uniform(129, Constant(0.03)),
        "music, birth/death": BirthDeath(129, Exponential(0.5, 10_000)),
    }
    for name, process in cases.items():
        states = process.num_states
        x, logits = torch.arange(states).repeat(4, 1), 5 * torch.randn(4, states, states)
        narrow, wide = (ReverseProcess(process, FixedLogits(given)) for given in (logits, logits.double()))
        times = (*_TIMES, *torch.linspace(0.02, 0.12, 11).tolist())
        worst = max(_worst(narrow.rates(x, t).numpy(), wide.rates(x, t).numpy()) for t in times)
        yield Row(f"rates, {name}: float32 against float64", worst, "relative error", at_most=1e-5)


@benchmark
def finite_rates() -> Iterator[Row]:
    times = (0.0, 1e-6, *_TIMES, *torch.linspace(0.005, 0.995, 34).tolist())
    skewed = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0])
    cases: dict[str, ForwardProcess] = {
        "toy, Gaussian": Gaussian(32, Exponential(5.0, 5.0), 8.0, 1.0),
        "images, Gaussian": Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0),
        "music, uniform": Uniform(129, Constant(0.03)),
        "music, birth/death": BirthDeath(129, Exponential(0.5, 10_000)),
        "absorbing, log-linear": Absorbing(129, LogLinear()),
        "rank one, cosine, a state of law 0": RankOne(skewed, Cosine()),
        "dense, a cycle": Dense(_cycle(9), Exponential(5.0, 5.0)),
    }
    for name, process in cases.items():
        states = process.num_states
        x = torch.arange(states).repeat(4, 1)
        noise, signs = torch.randn(4, states, states), torch.randint(2, (4, states, states)) * 2.0 - 1
        one_high = torch.nn.functional.one_hot(torch.randint(states, (4, states)), states) * 2.0 - 1
        wrong = 0
        for logits in (noise, 1e4 * noise, 1e4 * signs, _LARGEST_LOGIT * signs, _LARGEST_LOGIT * one_high):
            reverse = ReverseProcess(process, FixedLogits(logits))
            for t in (*times, torch.tensor([1e-5, 0.02, 0.4, 1.0])):
                rates = reverse.rates(x, t)
                wrong += int((~torch.isfinite(rates) | (rates < 0)).sum())
        yield Row(f"rates, {name}, any finite logits: not finite or < 0", wrong, "entries", at_most=0)
