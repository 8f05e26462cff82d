"""Laws to test against: random ones, the joint space by brute force, and the chi-square test.

A joint law of D sites is a table of shape (S,)*D. Nothing here is fast, and nothing here uses the formulas that it is
there to test.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import torch
from scipy import stats
from torch import Tensor

from tauleap.evaluate.joint_space import by_site, joint_states, uniform_states
from tauleap.noise import ForwardProcess

LEVEL = 1e-6
"""How often a chi-square test here refuses a right sampler. Seeds are fixed, so it refuses it always or never: among
300 tests of a right library one fails with probability below 3e-4 when the seeds are first chosen (Bonferroni)."""


def random_law(allowed: Tensor, seed: int, *, holes: float = 0.0) -> Tensor:
    """Return a law of dependent sites that is 0 where a site is in a state outside ``allowed`` (D, S).

    ``holes`` is the share of joint states that get probability 0 besides.
    """
    generator = torch.Generator().manual_seed(seed)
    sites, size = allowed.shape
    weights = torch.rand([size] * sites, dtype=torch.float64, generator=generator) ** 4
    for site in range(sites):
        weights = weights * allowed[site].reshape([size if d == site else 1 for d in range(sites)])
    possible = torch.rand(weights.shape, dtype=torch.float64, generator=generator) >= holes
    possible |= weights == weights.max()
    weights = weights * possible
    return weights / weights.sum()


def push(law: Tensor, kernels: Tensor) -> Tensor:
    """Return the joint law after each site d has moved by the kernel ``kernels[d]`` (S, S)."""
    for site, kernel in enumerate(kernels):
        law = torch.tensordot(law.movedim(site, -1), kernel, dims=1).movedim(-1, site)
    return law


def posterior_marginals(law: Tensor, likelihood: Tensor) -> tuple[Tensor, Tensor]:
    """Return p(x0^d = u | x) at [n, d, u] for the likelihoods of the sites at [n, d, u], and the probability of x."""
    states = joint_states(law.shape[0], law.ndim)
    joint = law.reshape(-1).expand(len(likelihood), -1)
    for site in range(law.ndim):
        joint = joint * likelihood[:, site][:, states[:, site]]
    marginals = torch.zeros_like(likelihood)
    for site in range(law.ndim):
        marginals[:, site].index_add_(-1, states[:, site], joint)
    total = joint.sum(-1)
    return marginals / total[:, None, None], total


def site_generators(process: ForwardProcess, shape: tuple[int, ...]) -> Tensor:
    """Return R_b of every site, (D, S, S), by ``rates_from`` in float64."""
    states = uniform_states(process.num_states, shape)
    rates = by_site(process.rates_from(states, 0.5, dtype=torch.float64)) / process.schedule.rate(0.5)
    return rates - torch.diag_embed(rates.sum(-1))


def exact_exponential(generator: Tensor, c: float, digits: int = 80) -> Tensor:
    """Return exp(c R), computed with ``digits`` digits and rounded to float64; the diagonal of R follows from the rest.

    Slow: meant for a dozen states at most.
    """
    size = len(generator)
    with mpmath.workdps(digits):
        matrix = mpmath.matrix(size, size)
        for i in range(size):
            for j in range(size):
                if i != j:
                    matrix[i, j] = mpmath.mpf(c) * mpmath.mpf(float(generator[i, j]))
            matrix[i, i] = -mpmath.fsum(matrix[i, j] for j in range(size) if j != i)
        result = mpmath.expm(matrix)
        values = [[float(result[i, j]) for j in range(size)] for i in range(size)]
    return torch.tensor(values, dtype=torch.float64)


def assert_relative(actual: Tensor, expected: Tensor, tolerance: float, *, floor: float = 0.0) -> None:
    """Raise an error if an entry has a relative error above ``tolerance``; entries up to ``floor`` must be near 0."""
    counted = expected.abs() > floor
    off = (actual - expected).abs()
    worst = (off[counted] / expected.abs()[counted]).max().item() if bool(counted.any()) else 0.0
    assert worst <= tolerance, f"off by {worst:.3g} in relative terms, where {tolerance:g} is allowed"
    small = off[~counted].max().item() if not bool(counted.all()) else 0.0
    assert small <= floor * (1 + tolerance), f"{small:.3g} where there should be at most {floor:g}"


def count(draws: Tensor, num_states: int) -> Tensor:
    """Return the number of times that each state occurs along the first axis: (n, *rest) -> (*rest, S)."""
    return torch.nn.functional.one_hot(draws, num_states).sum(0)


def assert_drawn_from(counts: Tensor, probs: Tensor, level: float = LEVEL) -> None:
    """Raise an error if draws from ``probs`` (..., S) have ``counts`` (..., S) with probability ``level`` or less.

    Pearson's chi-square over all rows at once; cells that expect fewer than 5 draws are taken together. A draw of
    something of probability 0 is refused at any level.
    """
    rows = counts.reshape(-1, counts.shape[-1]).to(torch.float64).numpy()
    laws = probs.reshape(rows.shape).to(torch.float64).numpy()
    impossible = rows[laws == 0].sum()
    assert impossible == 0, f"{impossible:g} draws of something of probability 0"
    statistic, freedom = 0.0, 0
    for row, law in zip(rows, laws, strict=True):
        expected = law / law.sum() * row.sum()
        observed, expected = _pool_small_cells(row, expected)
        statistic += float(((observed - expected) ** 2 / expected).sum())
        freedom += len(expected) - 1
    assert freedom > 0, "every law is one state only, or there are too few draws: nothing was tested"
    p = float(stats.chi2.sf(statistic, freedom))
    assert p > level, f"chi-square {statistic:.1f} with {freedom} degrees of freedom: p = {p:.3g}, below {level:g}"


def _pool_small_cells(observed: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    # The fewest of the smallest cells that expect 5 draws together, if all that expect fewer than 5 are among them.
    enough = int(np.searchsorted(np.cumsum(expected), 5.0)) + 1
    pooled = min(max(enough, int((expected < 5).sum())), len(expected)) if expected[0] < 5 else 1
    merged = (np.concatenate([[values[:pooled].sum()], values[pooled:]]) for values in (observed, expected))
    observed, expected = merged
    return observed[expected > 0], expected[expected > 0]


def integrate(generators: Callable[[Tensor], Tensor], start: Tensor, times: Tensor) -> Tensor:
    """Return the laws at ``times`` of the chain with ``generators(t)`` that starts from ``start`` at the first time.

    Time runs as the times do, up or down, and a generator says what happens while it runs. Fourth order (Magnus, with
    two Gauss points a step): the exponential of each step is exact however stiff the chain.
    """
    length = times.diff()
    middle, half = times[:-1] + length / 2, length / 12**0.5
    first, second = generators(torch.cat([middle - half, middle + half])).chunk(2)
    length = length.abs()[:, None, None]
    commutator = first @ second - second @ first  # for laws as rows, which multiply from the left
    steps = torch.matrix_exp(length / 2 * (first + second) + 3**0.5 / 12 * length**2 * commutator)
    laws = [start]
    for step in steps:
        laws.append(laws[-1] @ step)
    return torch.stack(laws)
