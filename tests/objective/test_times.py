"""Times: the law they claim, and weights that undo it."""

import math
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.noise import Constant, Uniform
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    GridTimes,
    PaperElbo,
    Times,
    UniformTimes,
    WeightedTimes,
    fitted_times,
)
from tauleap.testing.laws import joint_states, random_law
from tauleap.testing.objective import TableDenoiser, at_paths, every_path

LAWS = (
    UniformTimes(),
    UniformTimes(0.2, stratified=False),
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
def test_draws_are_spread_and_each_sample_has_the_whole_law(times: Times) -> None:
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
@pytest.mark.parametrize("make", [CompleteElbo, partial(PaperElbo, 2), partial(PaperElbo, 1), CrossEntropy])
def test_gradients_are_right_under_importance_sampling(make) -> None:
    """The mean over places of the weighted gradient is that of uniform times: noise by enumeration, places by Gauss
    points in each part, between which nothing jumps."""
    process = Uniform(3, Constant(0.7))
    law = random_law(process.data_states.expand(2, -1), seed=1)
    reverse = ReverseProcess(process, TableDenoiser.random(3, 2))
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
                path = every_path(process, law, float(t))
                value = at_paths(make(times=times), reverse, path, float(t))
                total = total + share * weight * (path.weight * value).sum()
        gradients.append(torch.autograd.grad(total, reverse.denoiser.table)[0])
    assert_close(gradients[1], gradients[0], rtol=0, atol=1e-6 * float(gradients[0].abs().max()))


@pytest.mark.usefixtures("unchecked")
def test_gradients_agree_by_monte_carlo_for_every_law_of_times() -> None:
    """Independent, stratified and weighted times: pairs of them within 4 standard errors in every entry."""
    process = Uniform(3, Constant(0.7))
    law = random_law(process.data_states.expand(2, -1), seed=1)
    generator = torch.Generator().manual_seed(0)
    found = []
    for times in (UniformTimes(stratified=False), UniformTimes(), WeightedTimes([4.0, 1.0, 2.0])):
        reverse = ReverseProcess(process, TableDenoiser.random(3, 2))
        draws = []
        for _ in range(50):
            chosen = torch.multinomial(law.reshape(-1), 128, replacement=True, generator=generator)
            loss = CompleteElbo(times=times)(reverse, joint_states(3, 2)[chosen], generator=generator).mean()
            draws.append(torch.autograd.grad(loss, reverse.denoiser.table)[0])
        stacked = torch.stack(draws)
        found.append((stacked.mean(0), stacked.var(0) / len(stacked)))
    for (mean, variance), (other, other_variance) in combinations(found, 2):
        assert ((mean - other).abs() / (variance + other_variance).sqrt()).max() < 4


def test_weights_reach_the_loss() -> None:
    """With one draw of noise and given places, the path is weighted and the prior is not."""
    process = Uniform(3, Constant(0.7))
    reverse = ReverseProcess(process, TableDenoiser.random(3, 2))
    x0 = joint_states(3, 2)
    times = WeightedTimes([3.0, 1.0])
    drawn = CompleteElbo(times=times)(reverse, x0, generator=torch.Generator().manual_seed(0))
    t, weight = times.draw(len(x0), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    times.draw(len(x0), generator=generator)
    given = CompleteElbo(times=times)(reverse, x0, t=t, generator=generator)
    assert_close(drawn.terms["path"], weight * given.terms["path"])
    assert_close(drawn.terms["prior"], given.terms["prior"])
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


def test_equal_laws_are_equal() -> None:
    assert UniformTimes() == UniformTimes(0.01)
    assert UniformTimes() != UniformTimes(0.02)
    assert WeightedTimes([1.0, 2.0]) == WeightedTimes([2.0, 4.0])
    assert GridTimes(5) != GridTimes(6)
    assert len({UniformTimes(), UniformTimes(), GridTimes(5)}) == 2
