"""Rank-one noise whose prior has very rare states: losses, gradients and rates against 60 digits."""

from itertools import product

import mpmath
import pytest
import torch
from mpmath import mpf
from torch import Tensor
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.denoise import Denoiser, Posterior
from tauleap.evaluate import bits_per_dim
from tauleap.noise import Cosine, LogLinear, RankOne, Schedule
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    LogUniformTimes,
    Objective,
    PaperElbo,
    Subsampled,
)

LAWS = {
    "1e-13": [1 - 1e-5 - 1e-13, 1e-5, 1e-13],
    "1e-20": [0.6, 0.4 - 1e-10, 1e-13, 1e-20],
    "1e-35": [0.5, 0.5 - 1e-9, 1e-17, 1e-35],
    "one state": [1 - 1e-13, 1e-13, 1e-24, 1e-35],
}
TIMES = [1e-4, 0.03, 0.7, 1 - 1e-6]
PRECISION = {torch.float32: 2e-5, torch.float64: 1e-12}


class Answers(Denoiser):
    """The logits of every site, which is known by the row that it is in."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x_t, t, *, observed=None, condition=None) -> Posterior:
        return Posterior(self.logits.expand(len(x_t), *self.logits.shape[1:]))


class Exact:
    """One site in state x at time t, with 60 digits: C_v(x0), the rates if x0 were known, and h, their mean under p."""

    def __init__(self, law: Tensor, schedule: Schedule, t: float, x: int, logits: Tensor) -> None:
        law_, self.size = [mpf(v) for v in law.tolist()], len(law)
        time = torch.tensor(t, dtype=torch.float64)
        alpha, beta = mpmath.exp(-mpf(float(schedule.total(time)))), mpf(float(schedule.rate(time)))

        def q(v: int, u: int) -> mpf:
            return alpha * (u == v) + (1 - alpha) * law_[v]

        states = range(self.size)
        weights = [mpmath.exp(mpf(v)) for v in logits.tolist()]
        self.p = [weight / sum(weights) for weight in weights]
        self.known = [[0 if v == x else beta * law_[x] * q(v, u) / q(x, u) for v in states] for u in states]
        self.h = [sum(self.p[u] * self.known[u][v] for u in states) for v in states]
        self.destinations = [v for v in states if v != x]

    def divergence(self, x0: int) -> tuple[mpf, mpf]:
        """Its value, and the sum of all terms by magnitude, of which a dtype keeps its digits."""
        c = self.known[x0]
        value = sum(self.h[v] - c[v] + c[v] * mpmath.log(c[v] / self.h[v]) for v in self.destinations)
        return value, sum(self.h[v] + c[v] for v in self.destinations)

    def gradient(self, x0: int) -> tuple[list[mpf], mpf]:
        """By the logits, and the scale of its terms."""
        c = self.known[x0]

        def by_probs(sign: int) -> list[mpf]:
            slopes = {v: 1 + sign * c[v] / self.h[v] for v in self.destinations}
            return [sum(slopes[v] * known[v] for v in self.destinations) for known in self.known]

        slopes, scale = by_probs(-1), sum(p * g for p, g in zip(self.p, by_probs(1), strict=True))
        mean = sum(p * g for p, g in zip(self.p, slopes, strict=True))
        return [p * (g - mean) for p, g in zip(self.p, slopes, strict=True)], scale


def logits_of(kind: str, x: Tensor, x0: Tensor, size: int) -> Tensor:
    out = torch.randn(len(x), size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sites = torch.arange(len(x))
    if kind == "sure of x":
        out[sites, x] += 30
    if kind == "sure of x0":
        out[sites, x0] += 12
    return 8 * out if kind == "far apart" else out


@pytest.mark.parametrize("kind", ["random", "far apart", "sure of x", "sure of x0"])
@pytest.mark.parametrize("name", LAWS)
def test_rates_losses_and_gradients_have_all_their_digits(name: str, kind: str) -> None:
    """At every pair of x and x0: to 2e-5 in float32 and 1e-12 in float64, or one rounding of the terms of a loss."""
    schedule = LogLinear()
    law = torch.tensor(LAWS[name], dtype=torch.float64)
    process, size = RankOne(law, schedule), len(law)
    x, x0 = (torch.tensor(part) for part in zip(*product(range(size), repeat=2), strict=True))
    for t, dtype in product(TIMES, PRECISION):
        logits = logits_of(kind, x, x0, size).to(dtype)
        reverse = ReverseProcess(process, Answers(logits[:, None]))
        rates = reverse.rates(x[:, None], t)[:, 0]
        exits = reverse.exit_rate(x[:, None], t)[:, 0]
        slopes = logits.clone().requires_grad_()
        found = reverse.divergence(x0[:, None], x[:, None], t, posterior=Posterior(slopes[:, None]))[:, 0]
        found.sum().backward()
        assert slopes.grad is not None
        values, near, rounding = found.tolist(), PRECISION[dtype], torch.finfo(dtype).eps
        with mpmath.workdps(60):
            for i in range(len(x)):
                exact = Exact(process.law, schedule, t, int(x[i]), logits[i])
                total = sum(exact.h)
                assert abs(mpf(float(exits[i])) - total) <= near * total
                for v in range(size):
                    assert abs(mpf(float(rates[i, v])) - exact.h[v]) <= near * exact.h[v] + mpf(1e-37)
                value, scale = exact.divergence(int(x0[i]))
                assert abs(mpf(values[i]) - value) <= near * value + rounding * scale + mpf(1e-37)
                gradient, scale = exact.gradient(int(x0[i]))
                largest = max(abs(g) for g in gradient)
                for ours, true in zip(slopes.grad[i].tolist(), gradient, strict=True):
                    assert abs(mpf(ours) - true) <= near * largest + 20 * rounding * scale + mpf(1e-37)


OBJECTIVES: list[Objective] = [
    CompleteElbo(times=LogUniformTimes(1e-4)),
    CompleteElbo(reconstruction=True, times=LogUniformTimes(1e-4)),
    PaperElbo(passes=1, times=LogUniformTimes(1e-4)),
    PaperElbo(passes=2, times=LogUniformTimes(1e-4)),
    CrossEntropy(times=LogUniformTimes(1e-4)),
    DiscreteTimeElbo(50),
    DiscreteTimeElbo(6, terms="all") + CrossEntropy(),
    Subsampled(CompleteElbo(times=LogUniformTimes(1e-4)), site_fraction=0.5, samples_per_time=2),
]


def rare_prior(size: int, power: int = -35) -> Tensor:
    """Down to 10^power in equal steps of the logarithm."""
    weights = torch.logspace(0, power, size, dtype=torch.float64)
    return weights / weights.sum()


def uneven_prior(size: int) -> Tensor:
    return (10 * torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(3))).softmax(0)


@pytest.mark.parametrize(
    "prior",
    [rare_prior(40), rare_prior(40, -25), uneven_prior(1000)],
    ids=["down to 1e-35", "down to 1e-25", "1000 states, uneven"],
)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_every_objective_in_float32_is_that_in_float64(prior: Tensor, objective: Objective) -> None:
    """Data in all states, rare ones too; LogLinear and Cosine, whose rate is 0 at time 1."""
    size = len(prior)
    x0 = torch.stack([prior.argsort()[:20], prior.argsort()[-20:]], 1).reshape(10, 4)
    for schedule in (LogLinear(), Cosine()):
        process = RankOne(prior, schedule)
        logits = 3 * torch.randn(1, 4, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        values, slopes = [], []
        for dtype in (torch.float32, torch.float64):
            parameter = logits.float().to(dtype).requires_grad_()
            loss = objective(
                ReverseProcess(process, Answers(parameter)), x0, generator=torch.Generator().manual_seed(2)
            )
            loss.mean().backward()
            assert parameter.grad is not None
            values.append(loss.value.detach().double())
            slopes.append(parameter.grad.double())
            assert all(bool(term.isfinite().all()) for term in loss.terms.values())
        assert bool(values[0].isfinite().all())
        assert_close(values[0], values[1], rtol=2e-5, atol=1e-6)
        assert_close(slopes[0], slopes[1], rtol=2e-5, atol=2e-5 * float(slopes[1].abs().max()))


@pytest.mark.parametrize("power", [-25, -35])
def test_bits_per_dim_of_rare_states_is_a_number(power: int) -> None:
    prior = rare_prior(30, power)
    x0 = torch.arange(30).reshape(10, 3)
    logits = torch.randn(1, 3, 30, generator=torch.Generator().manual_seed(1))
    bits = [
        bits_per_dim(
            ReverseProcess(RankOne(prior, LogLinear()), Answers(logits.to(dtype))),
            x0,
            samples=8,
            generator=torch.Generator().manual_seed(0),
        ).value
        for dtype in (torch.float32, torch.float64)
    ]
    assert bits[0] == pytest.approx(bits[1], rel=1e-5)


def test_step_probabilities_of_rare_states_sum_to_one() -> None:
    process = RankOne(rare_prior(40), LogLinear())
    x = torch.arange(40)[:, None]
    reverse = ReverseProcess(process, Answers(torch.randn(1, 1, 40, generator=torch.Generator().manual_seed(1))))
    for t, s in ((1e-4, 1e-5), (0.5, 0.4), (1 - 1e-6, 0.999), (1.0, 1e-4)):
        step = reverse.step_probs(x, t, s)
        assert_close(step.sum(-1), torch.ones(40, 1), rtol=0.0, atol=1e-6)
        assert bool((step >= 0).all())


def test_sites_with_different_distributions() -> None:
    """The same, where another site of the row has an even law."""
    laws = torch.stack([rare_prior(8), torch.full((8,), 1 / 8, dtype=torch.float64)])
    together = RankOne(laws, LogLinear())
    logits = torch.randn(64, 2, 8, generator=torch.Generator().manual_seed(1))
    x, x0 = (part.reshape(64, 1).expand(64, 2) for part in torch.meshgrid(*[torch.arange(8)] * 2, indexing="ij"))
    for t in TIMES:
        found = ReverseProcess(together, Answers(logits)).divergence(x0, x, t)
        for site in range(2):
            alone = ReverseProcess(RankOne(laws[site], LogLinear()), Answers(logits[:, site : site + 1].double()))
            exact = alone.divergence(x0[:, :1], x[:, :1], t)
            assert_close(found[:, site].double(), exact[:, 0], rtol=2e-5, atol=1e-12)
