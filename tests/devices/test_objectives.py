"""Losses and gradients are equal on an accelerator and on the CPU."""

import pytest
import torch

from tauleap import Observed
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    GridTimes,
    LogUniformTimes,
    PaperElbo,
    ReweightedTimes,
    Subsampled,
    UniformTimes,
    WeightedTimes,
    fitted_times,
)
from tauleap.testing import cases
from tests.devices.parts import assert_same, data, model, move, on_both

OBJECTIVES = {
    "complete": CompleteElbo(),
    "complete with reconstruction": CompleteElbo(reconstruction=True),
    "paper, one pass": PaperElbo(passes=1),
    "paper, two passes": PaperElbo(passes=2) + 0.01 * CrossEntropy(),
    "cross entropy": CrossEntropy("mean"),
    "discrete time": DiscreteTimeElbo(5),
    "discrete time, all": DiscreteTimeElbo(3, terms="all"),
    "subsampled": Subsampled(CompleteElbo(reconstruction=True), site_fraction=0.5),
}
TIMES = [
    UniformTimes(),
    UniformTimes(stratified=False),
    LogUniformTimes(),
    ReweightedTimes(power=1.5),
    ReweightedTimes(weights=[1.0, 2.0]),
    WeightedTimes([3.0, 1.0]),
    GridTimes(4),
]


def loss_and_gradient(reverse, x0, *, objective, **named):
    loss = objective(reverse, x0, **named)
    loss.value.sum().backward()
    gradient = {name: p.grad for name, p in reverse.named_parameters()}
    assert all(g is not None and bool(g.isfinite().all()) for g in gradient.values())
    return loss.value, dict(loss.terms), gradient


FEW = ("absorbing", "gaussian")
"""The objectives for a device without float64, where kernels are computed on the CPU."""


@pytest.mark.parametrize(
    ("each_sim", "name"),
    [("float64", name) for name in cases.of_every_kind()] + [("no float64", name) for name in FEW],
    indirect=["each_sim"],
)
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_losses_and_gradients(each_sim, name, objective):
    if name == "rank one by site" and isinstance(objective, Subsampled):
        return  # refused on any device
    process = cases.of_every_kind()[name]
    both = on_both(loss_and_gradient, each_sim, model(process), data(process), objective=objective)
    assert_same(*both, each_sim)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize(
    ("each_sim", "name"),
    [("float64", "absorbing"), ("float64", "gaussian"), ("no float64", "absorbing")],
    indirect=["each_sim"],
)
def test_observed_and_missing_sites_and_conditions(each_sim, name, objective):
    process = cases.of_every_kind()[name]
    x0 = data(process)
    mask = torch.tensor([[True, False], [False, False], [False, False], [False, False], [False, False], [False, True]])
    both = on_both(
        loss_and_gradient,
        each_sim,
        model(process),
        x0,
        objective=objective,
        observed=Observed(mask, x0),
        missing=torch.zeros_like(mask).index_fill_(0, torch.tensor([2]), True),
        condition=torch.linspace(-1, 1, len(x0)),
    )
    assert_same(*both, each_sim)


@pytest.mark.parametrize("t", [0.3, torch.linspace(0.1, 0.9, 6), torch.tensor(0.3, dtype=torch.float64)], ids=str)
@pytest.mark.parametrize("name", ["uniform", "gaussian"])
def test_times_that_are_given_may_be_on_the_cpu(sim, name, t):
    process = cases.of_every_kind()[name]
    objective = CompleteElbo(reconstruction=True)
    here, there = on_both(
        lambda *a, **k: loss_and_gradient(*a, t=t, objective=objective, **k), sim, model(process), data(process)
    )
    assert_same(here, there, sim)


@pytest.mark.parametrize("times", TIMES, ids=repr)
def test_distributions_of_times(sim, times):
    process = cases.of_every_kind()["uniform"]
    objective = CrossEntropy(times=times)
    assert_same(*on_both(loss_and_gradient, sim, model(process), data(process), objective=objective), sim)


def test_times_fitted_to_losses(each_sim):
    t = torch.linspace(0.02, 0.99, 50)
    here, there = fitted_times(t, 1 / t, parts=4), fitted_times(t.to(each_sim), 1 / t.to(each_sim), parts=4)
    assert there.weights == pytest.approx(here.weights, rel=1e-6)


def test_shared_times(each_sim):
    process = cases.of_every_kind()["uniform"]
    objective = Subsampled(CompleteElbo(), site_fraction=1.0, samples_per_time=2)
    assert_same(*on_both(loss_and_gradient, each_sim, model(process), data(process), objective=objective), each_sim)


def test_a_generator_of_the_cpu_serves_a_device(sim):
    """A generator of the CPU gives the same loss on any device."""
    process = cases.of_every_kind()["gaussian"]
    objective = PaperElbo(passes=2)
    losses = []
    for where in (torch.device("cpu"), sim):
        generator = torch.Generator().manual_seed(5)
        reverse, x0 = move(model(process), where), data(process).to(where)
        losses.append(objective(reverse, x0, generator=generator).value)
    assert_same(*losses, sim)
