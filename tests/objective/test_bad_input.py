"""Wrong input meets an error that says what was given and what to write."""

import math

import pytest
import torch

from tauleap import Observed, ReverseProcess
from tauleap.noise import Absorbing, Constant, LogLinear, RankOne, Uniform
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    GridTimes,
    PaperElbo,
    UniformTimes,
    WeightedTimes,
    fitted_times,
)
from tauleap.testing.paths import TableDenoiser

pytestmark = pytest.mark.usefixtures("unchecked")

REVERSE = ReverseProcess(Uniform(3, Constant(0.7)), TableDenoiser.random(3, 2))
X0 = torch.zeros(4, 2, dtype=torch.int64)
NONE = torch.zeros(4, 2, dtype=torch.bool)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x0": X0[:0]}, ValueError, r"at least one sample with at least one site, got shape \(0, 2\)"),
        ({"x0": X0[:, :0]}, ValueError, "at least one site"),
        ({"x0": X0.float()}, TypeError, "int64"),
        ({"x0": [[0, 1]]}, TypeError, "got list"),
        ({"x0": X0 + 3}, ValueError, r"states 0\.\.2, got values from 3 to 3"),
        ({"reverse": REVERSE.denoiser}, TypeError, r"write ReverseProcess\(process, denoiser\)"),
        ({"t": 1.5}, ValueError, r"\[0, 1\]"),
        ({"t": torch.rand(3)}, ValueError, r"one per sample, got \(3,\)"),
        ({"observed": Observed(NONE[:2], X0[:2])}, ValueError, r"the shape of x0, \(4, 2\), got \(2, 2\)"),
        ({"observed": Observed(~NONE, X0)}, ValueError, "every site is observed or missing"),
        ({"missing": ~NONE}, ValueError, "every site is observed or missing"),
        ({"missing": NONE[:, :1]}, ValueError, r"missing must have the shape of x0, \(4, 2\), .* got \(4, 1\)"),
        ({"missing": X0}, TypeError, "missing must be a bool tensor"),
        (
            {"missing": torch.tensor([True, False]), "observed": Observed(torch.tensor([True, False]), X0)},
            ValueError,
            "observed and missing at once",
        ),
        ({"observed": Observed(~NONE, X0 + 7)}, ValueError, "the observed values"),
        ({"observed": NONE}, TypeError, r"observed must be an Observed\(mask, values\), got Tensor"),
        ({"observed": (NONE, X0)}, TypeError, r"observed must be an Observed\(mask, values\), got tuple"),
        ({"condition": [1, 2]}, TypeError, r"condition must be a tensor, got list: write torch.tensor\(condition\)"),
        ({"generator": 3}, TypeError, r"got int: write torch.Generator\(\).manual_seed\(seed\)"),
    ],
)
def test_calls(arguments: dict, error: type[Exception], message: str) -> None:
    given = {"reverse": REVERSE, "x0": X0} | arguments
    for objective in (CompleteElbo(), PaperElbo(passes=2), CrossEntropy(), DiscreteTimeElbo(4)):
        with pytest.raises(error, match=message):
            objective(given.pop("reverse", REVERSE), given.pop("x0", X0), **given)
        given = {"reverse": REVERSE, "x0": X0} | arguments


def test_one_sample_that_is_all_observed_has_no_loss() -> None:
    mask = NONE.clone()
    mask[1] = True
    for objective in (
        CompleteElbo(reconstruction=True),
        PaperElbo(passes=1),
        CrossEntropy("mean"),
        DiscreteTimeElbo(4),
    ):
        loss = objective(REVERSE, X0, observed=Observed(mask, X0))
        assert loss.value[1] == 0
        assert loss.value.isfinite().all()


def test_data_that_the_process_cannot_have() -> None:
    masked = ReverseProcess(Absorbing(3, LogLinear()), TableDenoiser.random(3, 2))
    with pytest.raises(ValueError, match=r"x0 holds \[2\], which data of this process cannot have .* missing="):
        CompleteElbo()(masked, X0 + 2)
    laws = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    by_site = ReverseProcess(RankOne(laws, LogLinear()), TableDenoiser.random(3, 2))
    with pytest.raises(ValueError, match=r"x0 holds \[0\]"):
        CompleteElbo()(by_site, X0)
    CompleteElbo()(by_site, torch.tensor([[0, 1]]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DiscreteTimeElbo(0), ValueError, "steps must be a whole number >= 1, got 0"),
        (lambda: DiscreteTimeElbo(2.5), TypeError, "steps must be a whole number"),
        (lambda: DiscreteTimeElbo(4, terms="some"), ValueError, 'terms must be "random"'),
        (lambda: PaperElbo(passes=3), ValueError, r"passes must be 2 \(L_CT"),
        (lambda: PaperElbo(passes=True), ValueError, "passes must be 2"),
        (lambda: PaperElbo(passes=1.0), ValueError, "passes must be 2 .* got 1.0"),
        (lambda: CrossEntropy("max"), ValueError, 'reduction must be "sum" or "mean"'),
        (lambda: CompleteElbo(reconstruction=1), TypeError, "reconstruction must be True or False"),
        (lambda: CompleteElbo(times=0.01), TypeError, r"such as UniformTimes\(0.01\), got float"),
        (lambda: -1.0 * CompleteElbo(), ValueError, "a finite number >= 0, got -1.0"),
        (lambda: float("nan") * CompleteElbo(), ValueError, "a finite number >= 0, got nan"),
        (lambda: UniformTimes(0.0), ValueError, "eps must be a finite number > 0"),
        (lambda: UniformTimes(1.0), ValueError, r"eps must be a time in \(0, 1\)"),
        (lambda: UniformTimes(stratified=1), TypeError, "stratified must be True or False"),
        (lambda: WeightedTimes([1.0, -1.0]), ValueError, r"weights must be numbers > 0, .* got \[1.0, -1.0\]"),
        (lambda: WeightedTimes([1.0, 0.0]), ValueError, "would be ignored"),
        (lambda: WeightedTimes([]), ValueError, "weights must be numbers > 0"),
        (lambda: WeightedTimes(3.0), TypeError, "weights must be a list of numbers > 0, .* got float"),
        (lambda: WeightedTimes(torch.ones(2)), TypeError, r"got Tensor: write weights.tolist\(\)"),
        (lambda: WeightedTimes([*torch.ones(2)]), TypeError, "a list of plain numbers, got one of type Tensor"),
        (lambda: GridTimes(4, stratified=3), TypeError, "stratified must be True or False, got 3"),
        (lambda: GridTimes(0), ValueError, "steps must be a whole number >= 1"),
        (lambda: fitted_times([0.5], [1.0]), TypeError, r"t must be a floating-point tensor \(n,\), got list"),
        (lambda: fitted_times(torch.rand(5), X0[:, 0]), TypeError, "loss must be a floating-point .* got torch.int64"),
        (
            lambda: fitted_times(torch.tensor([math.nan]), torch.ones(1)),
            ValueError,
            r"t must lie in \(eps, 1\) = \(0.01",
        ),
        (lambda: fitted_times(torch.tensor([1.5]), torch.ones(1)), ValueError, "got values from 1.5 to 1.5"),
        (lambda: fitted_times(torch.tensor([0.005]), torch.ones(1), parts=1), ValueError, "t must lie in"),
        (lambda: fitted_times(torch.rand(5), torch.rand(4)), ValueError, r"must be \(n,\) both"),
        (lambda: fitted_times(torch.full((5,), 0.5), torch.rand(5)), ValueError, "write fewer parts"),
        (lambda: fitted_times(torch.linspace(0.01, 1, 99), torch.zeros(99), parts=1), ValueError, "not all 0"),
        (
            lambda: fitted_times(torch.linspace(0.01, 1, 99), torch.rand(99), parts=1, even=2),
            ValueError,
            "even must be a fraction",
        ),
    ],
)
def test_constructors(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
