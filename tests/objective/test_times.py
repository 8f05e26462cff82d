"""Times: the law they claim, and weights that undo it."""

import math
from functools import cache, partial
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.evaluate.joint_space import joint_states
from tauleap.noise import Constant, Uniform
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    GridTimes,
    LogUniformTimes,
    PaperElbo,
    ReweightedTimes,
    Times,
    UniformTimes,
    WeightedTimes,
    fitted_times,
)
from tauleap.testing.laws import random_law
from tauleap.testing.paths import Path, TableDenoiser, at_paths, every_path

# Everything that may look at weighted times.
OBJECTIVES = {
    "complete": CompleteElbo,
    "paper, 2 passes": partial(PaperElbo, 2),
    "paper, 1 pass": partial(PaperElbo, 1),
    "cross entropy": CrossEntropy,
    "mean cross entropy": partial(CrossEntropy, "mean"),
    "sum": lambda times: PaperElbo(1, times=times) + 0.5 * CrossEntropy(),
    "sum with constants": lambda times: 2.0 * CompleteElbo(times=times) + CrossEntropy(),
}
each_objective = pytest.mark.parametrize("make", OBJECTIVES.values(), ids=OBJECTIVES.keys())

PROCESS = Uniform(3, Constant(0.7))
LAW = random_law(PROCESS.data_states.expand(2, -1), seed=1)


@cache
def paths(t: float) -> Path:
    """All paths by time t, which serve every objective."""
    return every_path(PROCESS, LAW, t)


LAWS = (
    UniformTimes(),
    UniformTimes(0.2, stratified=False),
    LogUniformTimes(),
    LogUniformTimes(0.1, stratified=False),
    WeightedTimes([5.0, 1.0, 0.5, 2.0]),
    WeightedTimes([1.0, 9.0], 0.1, stratified=False),
    GridTimes(7),
)


@pytest.mark.parametrize("times", LAWS, ids=repr)
def test_weighted_means_are_means_over_the_times(times: Times) -> None:
    """The integral over places of weight f(t) is the mean of f: by a fine grid of places."""
    places = (torch.arange(280_000, dtype=torch.float64) + 0.5) / 280_000
    t, weight = times.at(places)
    for f in (torch.ones_like, torch.sin, torch.log):
        if isinstance(times, GridTimes):
            expected = f(torch.arange(1, 8, dtype=torch.float64) / 7).mean()
        else:
            expected = f(times.eps + (1 - times.eps) * places).mean()
        assert_close((weight * f(t)).mean(), expected, rtol=0, atol=1e-5)
    assert times.eps - 1e-12 <= float(t.min())
    assert float(t.max()) <= 1


@pytest.mark.parametrize("times", LAWS, ids=repr)
def test_times_are_stratified_and_each_has_the_whole_distribution(times: Times) -> None:
    """Level 1e-4 for each Kolmogorov-Smirnov test."""
    generator = torch.Generator().manual_seed(0)
    batches = torch.stack([times.draw(8, generator=generator)[0] for _ in range(600)])
    # Back to places: the law's CDF at t is uniform for a law without atoms.
    if not isinstance(times, GridTimes):
        grid = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
        places = torch.searchsorted(times.at(grid)[0], batches) / 100_000
        for sample in range(8):
            assert stats.kstest(places[:, sample].numpy(), "uniform").pvalue > 1e-4
        strata = (places * 8).floor().clamp(max=7).sort(-1).values
        if times.stratified:
            assert float((strata == torch.arange(8)).double().mean()) > 0.999
        else:
            assert float((strata == torch.arange(8)).double().mean()) < 0.9
    else:
        assert torch.equal((batches * 7).round() / 7, batches)


@pytest.mark.usefixtures("unchecked")
@each_objective
def test_gradients_are_right_under_importance_sampling(make) -> None:
    """The mean over places of the weighted gradient is that of uniform times: noise by enumeration, places by Gauss
    points in each part, between which nothing jumps."""
    reverse = ReverseProcess(PROCESS, TableDenoiser.random(3, 2))
    points, gauss = (torch.tensor(each) for each in np.polynomial.legendre.leggauss(8))
    gradients = []
    for times in (UniformTimes(0.1), WeightedTimes([4.0, 1.0, 2.0], 0.1)):
        ends = (
            torch.tensor([0.0, 0.3, 0.6, 1.0]) if isinstance(times, UniformTimes) else torch.tensor([0.0, 4, 5, 7]) / 7
        )
        total = torch.zeros(())
        for low, high in pairwise(ends.double()):
            places, shares = low + (high - low) * (points + 1) / 2, (high - low) * gauss / 2
            for t, weight, share in zip(*times.at(places), shares, strict=True):
                path = paths(float(t))
                value = at_paths(make(times=times), reverse, path, float(t), weight=weight)
                total = total + share * (path.weight * value).sum()
        gradients.append(torch.autograd.grad(total, reverse.denoiser.table)[0])
    assert_close(gradients[1], gradients[0], rtol=0, atol=1e-6 * float(gradients[0].abs().max()))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["complete", "paper, 2 passes", "paper, 1 pass", "cross entropy", "sum"])
def test_gradients_agree_by_monte_carlo_for_every_distribution_of_times(name: str) -> None:
    """Independent, stratified and weighted times: pairs of them within 4 standard errors in every entry."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for times in (UniformTimes(stratified=False), UniformTimes(), LogUniformTimes(), WeightedTimes([4.0, 1.0, 2.0])):
        reverse = ReverseProcess(PROCESS, TableDenoiser.random(3, 2))
        draws = []
        for _ in range(40):
            chosen = torch.multinomial(LAW.reshape(-1), 128, replacement=True, generator=generator)
            loss = OBJECTIVES[name](times=times)(reverse, joint_states(3, 2)[chosen], generator=generator).mean()
            draws.append(torch.autograd.grad(loss, reverse.denoiser.table)[0])
        stacked = torch.stack(draws)
        found.append((stacked.mean(0), stacked.var(0) / len(stacked)))
    for (mean, variance), (other, other_variance) in combinations(found, 2):
        assert ((mean - other).abs() / (variance + other_variance).sqrt()).max() < 4


@pytest.mark.parametrize("make", [*OBJECTIVES.values(), partial(CompleteElbo, reconstruction=True)])
def test_weights_reach_the_loss(make) -> None:
    """With one draw of noise and given places: every term is weighted but those that no time is drawn for."""
    reverse = ReverseProcess(PROCESS, TableDenoiser.random(3, 2))
    x0 = joint_states(3, 2)
    times = WeightedTimes([3.0, 1.0])
    objective = make(times=times)
    drawn = objective(reverse, x0, generator=torch.Generator().manual_seed(0))
    t, weight = times.draw(len(x0), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    times.draw(len(x0), generator=generator)
    given = objective(reverse, x0, t=t, generator=generator)
    expected = {
        name: term if name in ("prior", "reconstruction") else weight * term for name, term in given.terms.items()
    }
    assert_close(dict(drawn.terms), expected)
    assert_close(drawn.value.detach(), torch.stack(list(expected.values())).sum(0))
    assert sorted(set(weight.tolist())) == pytest.approx([2 / 3, 2.0])


def test_fitted_times_have_less_variance() -> None:
    generator = torch.Generator().manual_seed(0)
    t, _ = UniformTimes().draw(4000, generator=generator)

    def loss(t: torch.Tensor) -> torch.Tensor:
        return 1 / t

    times = fitted_times(t, loss(t), parts=20)
    spreads = []
    for law in (UniformTimes(stratified=False), WeightedTimes(times.weights, stratified=False)):
        t, weight = law.draw(4000, generator=generator)
        values = weight * loss(t)
        assert abs(float(values.mean()) - math.log(100) / 0.99) < 4 * float(values.std()) / 4000**0.5
        spreads.append(float(values.std()))
    assert spreads[1] < 0.5 * spreads[0]


def test_equal_distributions_compare_equal() -> None:
    assert UniformTimes() == UniformTimes(0.01)
    assert UniformTimes() != UniformTimes(0.02)
    assert WeightedTimes([1.0, 2.0]) == WeightedTimes([2.0, 4.0])
    assert GridTimes(5) != GridTimes(6)
    assert len({UniformTimes(), UniformTimes(), GridTimes(5)}) == 2


def test_different_distributions_compare_unequal() -> None:
    assert repr(WeightedTimes([3.0, 1.0])) == "WeightedTimes([0.75, 0.25], 0.01)"
    assert repr(LogUniformTimes(0.1)) == "LogUniformTimes(0.1)"
    assert repr(ReweightedTimes(0.1, power=1.5)) == "ReweightedTimes(0.1, power=1.5)"
    assert repr(ReweightedTimes(weights=[3.0, 1.0])) == "ReweightedTimes(0.01, weights=[0.75, 0.25])"
    assert repr(GridTimes(5)) == "GridTimes(5)"
    assert repr(GridTimes(5, stratified=False)) == "GridTimes(5, stratified=False)"
    with pytest.raises(
        ValueError, match=r"WeightedTimes\(\[0.75, 0.25\], 0.01\), WeightedTimes\(\[0.25, 0.75\], 0.01\)"
    ):
        CompleteElbo(times=WeightedTimes([3.0, 1.0])) + CrossEntropy(times=WeightedTimes([1.0, 3.0]))


def test_integrals_are_not_taken_over_a_grid() -> None:
    """With an exact posterior the complete bound is the entropy; its mean over a grid would be below."""
    message = (
        r"is an integral over all times in \(eps, 1\), and the mean over GridTimes\(8\) is not that: write times=Un"
    )
    for make in (
        lambda: CompleteElbo(times=GridTimes(8)),
        lambda: PaperElbo(1, times=GridTimes(8)),
        lambda: PaperElbo(2, times=GridTimes(8)),
        lambda: CompleteElbo() + DiscreteTimeElbo(8),
        lambda: DiscreteTimeElbo(8) + 0.001 * CrossEntropy() + PaperElbo(1),
        lambda: CompleteElbo() + CrossEntropy(times=GridTimes(8)),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    assert CrossEntropy(times=GridTimes(8)).times == GridTimes(8)
    assert (DiscreteTimeElbo(8) + CrossEntropy()).times == GridTimes(8)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
def test_reweighted_times_weigh_by_a_power_of_t_with_mean_one(power: float) -> None:
    places = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    t, weight = ReweightedTimes(0.05, power=power).at(places)
    assert torch.equal(t, UniformTimes(0.05).at(places)[0])
    assert_close(weight / weight[0], (t / t[0]) ** power)
    assert_close(weight.mean(), torch.tensor(1.0, dtype=torch.float64), rtol=1e-8, atol=0.0)


def test_reweighted_times_weigh_by_parts_with_mean_one() -> None:
    places = (torch.arange(3000, dtype=torch.float64) + 0.5) / 3000
    t, weight = ReweightedTimes(0.05, weights=[1.0, 4.0, 7.0]).at(places)
    assert torch.equal(t, UniformTimes(0.05).at(places)[0])
    assert_close(weight, torch.tensor([0.25, 1.0, 1.75], dtype=torch.float64).repeat_interleave(1000))
    last = torch.tensor([1.0], dtype=torch.float64)
    assert float(ReweightedTimes(weights=[1.0, 3.0]).at(last)[1]) == 1.5


def test_reweighted_times_need_one_kind_of_weight() -> None:
    for given in ({}, {"power": 1.5, "weights": [1.0]}):
        with pytest.raises(ValueError, match="ReweightedTimes needs exactly one of power"):
            ReweightedTimes(**given)
    with pytest.raises(ValueError, match="weights must be numbers > 0"):
        ReweightedTimes(weights=[1.0, 0.0])
