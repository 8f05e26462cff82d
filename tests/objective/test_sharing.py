"""Objectives that are added share one draw and one pass; which state each part gets."""

import pytest
import torch
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.noise import Constant, Uniform
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    NoisedBatch,
    Objective,
    PaperElbo,
    UniformTimes,
    WeightedTimes,
)
from tauleap.testing.paths import TableDenoiser

PROCESS = Uniform(4, Constant(0.7))
X0 = torch.randint(4, (8, 2), generator=torch.Generator().manual_seed(0))


def model() -> ReverseProcess:
    return ReverseProcess(PROCESS, TableDenoiser.random(4, 2))


def draw_for(objective: Objective, reverse: ReverseProcess, t: float = 0.4) -> NoisedBatch:
    generator = torch.Generator().manual_seed(1)
    return NoisedBatch(reverse, X0, UniformTimes(), objective.needs or frozenset({"x_t"}), t=t, generator=generator)


@pytest.mark.parametrize(
    ("objective", "rows"),
    [
        (CompleteElbo() + CrossEntropy(), ["x_t"]),
        (PaperElbo(passes=1) + 0.001 * CrossEntropy(), ["x_tilde"]),
        (PaperElbo(passes=2) + 0.001 * CrossEntropy(), ["x_t", "x_tilde"]),
        (CompleteElbo(reconstruction=True), ["x_t", "x_eps"]),
        (CompleteElbo() + PaperElbo(passes=1) + CrossEntropy(), ["x_t", "x_tilde"]),
        (CrossEntropy() + CrossEntropy("mean"), ["x_t"]),
    ],
    ids=repr,
)
def test_one_pass_serves_all_parts(objective: Objective, rows: list[str]) -> None:
    reverse = model()
    draw = draw_for(objective, reverse)
    loss = objective.evaluate(draw)
    assert reverse.denoiser.calls == 1
    x, t, _, _ = reverse.denoiser.seen
    assert torch.equal(x, torch.cat([getattr(draw, name) for name in rows]))
    times = torch.as_tensor(t, dtype=torch.float64).expand(len(x)).reshape(len(rows), -1)
    assert_close(times[:, 0], torch.tensor([0.01 if name == "x_eps" else 0.4 for name in rows]).double())
    alone = [part.evaluate(draw).scaled(weight) for weight, part in getattr(objective, "parts", [(1.0, objective)])]
    assert_close(loss.value, torch.stack([each.value for each in alone]).sum(0))
    assert reverse.denoiser.calls == 1


def test_cross_entropy_sees_x_unless_only_the_jumped_one_is_shown() -> None:
    reverse = model()
    for objective, name in (
        (CrossEntropy(), "x_t"),
        (PaperElbo(passes=2) + CrossEntropy(), "x_t"),
        (PaperElbo(passes=1) + CrossEntropy(), "x_tilde"),
    ):
        draw = draw_for(objective, reverse)
        loss = objective.evaluate(draw)
        logits = reverse.denoiser(getattr(draw, name), 0.4).logits
        expected = -logits.log_softmax(-1).gather(-1, X0[..., None]).sum((-1, -2))
        assert_close(loss.terms["cross_entropy"], expected.detach())


def test_mean_reduction_divides_by_the_scored_sites() -> None:
    mask = torch.tensor([[True, False]] * 4 + [[False, False]] * 4)
    observed = Observed(mask, X0)
    total, mean = (
        CrossEntropy(reduction)(model(), X0, t=0.4, observed=observed, generator=torch.Generator().manual_seed(0)).value
        for reduction in ("sum", "mean")
    )
    assert_close(mean, total / torch.tensor([1.0] * 4 + [2.0] * 4).double())


def test_parts_with_different_times_raise() -> None:
    with pytest.raises(ValueError, match="must have the same times"):
        CompleteElbo(times=UniformTimes(0.05)) + CrossEntropy(times=UniformTimes(0.01))
    with pytest.raises(ValueError, match="must have the same times"):
        DiscreteTimeElbo(10) + DiscreteTimeElbo(20)
    weighted = WeightedTimes([1.0, 2.0])
    assert (CompleteElbo(times=weighted) + CrossEntropy()).times is weighted
    assert (CompleteElbo(times=UniformTimes(0.05)) + CrossEntropy(times=UniformTimes(0.05))).times == UniformTimes(0.05)


@pytest.mark.usefixtures("unchecked")
def test_sums_of_sums_are_flat_and_have_a_repr() -> None:
    objective = 2 * (PaperElbo(passes=1) + 0.5 * CrossEntropy()) + CompleteElbo()
    assert repr(objective) == "2 * PaperElbo(passes=1) + CrossEntropy() + CompleteElbo()"
    assert repr(sum([CompleteElbo(), 0.5 * CrossEntropy()])) == "CompleteElbo() + 0.5 * CrossEntropy()"
    for number in (1.0, 1, 0.0):
        with pytest.raises(TypeError):
            CompleteElbo() + number
        with pytest.raises(TypeError):
            number + CompleteElbo()
    with pytest.raises(TypeError):
        CompleteElbo() * "2"


def test_a_condition_without_rows_is_passed_as_it_is() -> None:
    reverse = model()
    condition = torch.tensor([[1.0, 2.0]])
    PaperElbo(passes=2)(reverse, X0, condition=condition)
    assert reverse.denoiser.seen[3] is condition
    CompleteElbo()(reverse, X0, condition=condition)
    assert reverse.denoiser.seen[3] is condition


def test_missing_values_are_sampled_from_the_prior() -> None:
    x0 = X0.repeat(500, 1)
    mask = torch.tensor([True, False])
    draw = NoisedBatch(
        model(),
        x0.masked_fill(mask, -7),
        UniformTimes(),
        frozenset({"x_t"}),
        t=0.01,
        missing=mask,
        generator=torch.Generator().manual_seed(0),
    )
    counts = torch.bincount(draw.x_t[:, 0], minlength=4).double()
    assert ((counts - 1000).abs() < 4 * (4000 * 0.25 * 0.75) ** 0.5).all()
    assert (draw.x_t[:, 1] == x0[:, 1]).double().mean() > 0.95
