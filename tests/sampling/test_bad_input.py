"""What cannot work is refused at the door, by an error that says what does."""

from typing import Any

import pytest
import torch

from tauleap.denoise import ExactDenoiser
from tauleap.noise import Absorbing, BirthDeath, Constant, Gaussian, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    run_corrector,
    sample,
    uniform_grid,
)
from tauleap.testing import GivenLogits
from tauleap.testing.cases import correlated

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def reverse() -> ReverseProcess:
    return correlated("uniform", sites=2)[0]


@pytest.mark.parametrize(
    ("sampler", "process", "message"),
    [
        (FirstHitting(), Uniform(3, Constant(1.0)), r"FirstHitting\(\) is for Absorbing .* write Uniformization\(\)"),
        (FirstHitting(), BirthDeath(3, Constant(1.0)), r"got BirthDeath: .* write Uniformization\(\) or NextReaction"),
        (TauLeaping("add"), Uniform(3, Constant(1.0)), r"multiple_jumps='reject' or 'last' for Uniform"),
        (TauLeaping("add"), Absorbing(3, Constant(1.0)), "or choose an ordinal process, such as Gaussian"),
        (FirstJump(), Gaussian(4, Constant(1.0), 2.0, 1.0), r"for Gaussian write Extrapolated\(\) or Trapezoidal\(\)"),
        (WithCorrector(FirstHitting(), 1), Uniform(3, Constant(1.0)), r"FirstHitting\(\) is for Absorbing"),
        (WithCorrector(Ancestral(), 1, multiple_jumps="add"), Uniform(3, Constant(1.0)), "WithCorrector with mult"),
    ],
)
def test_a_sampler_and_a_process_that_do_not_fit(sampler: Any, process: Any, message: str) -> None:
    size = process.num_states
    law = torch.where(process.data_states, 1.0, 0.0).double()
    reverse = ReverseProcess(process, ExactDenoiser(law / law.sum(), process))
    with pytest.raises(ValueError, match=message):
        sample(reverse, sampler, (4, 1), grid=uniform_grid(3))
    with pytest.raises(ValueError, match=message):
        sampler.step(reverse, torch.full((4, 1), size - 1), 0.5, 0.4)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TauLeaping("sum"), ValueError, r"'add' \(ordinal data\), 'reject' \(categories\), 'last'"),
        (lambda: Trapezoidal(1.0), ValueError, "strictly between 0 and 1"),
        (lambda: Trapezoidal("half"), TypeError, r"a number in \(0, 1\)"),
        (lambda: Ancestral(1.5), ValueError, r"look_ahead must be a fraction of the step, in \[0, 1\], got 1.5"),
        (lambda: Ancestral(look_ahead=True), TypeError, "look_ahead must be a number"),
        (lambda: NextReaction(0.0), ValueError, "step must be a finite number > 0"),
        (lambda: WithCorrector("tau", 1), TypeError, r"a Sampler such as TauLeaping\(\)"),
        (lambda: WithCorrector(TauLeaping, 1), TypeError, r"a Sampler such as TauLeaping\(\)"),
        (lambda: WithCorrector(TauLeaping(), 0), ValueError, "steps must be a whole number >= 1"),
        (lambda: WithCorrector(TauLeaping(), 2, scale=-1.0), ValueError, "scale must be a finite number > 0"),
        (lambda: WithCorrector(TauLeaping(), 2, start=2.0), ValueError, r"start must be a time in \(0, 1\]"),
    ],
)
def test_settings_of_samplers(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"grid": [0.1, 1.0]}, ValueError, r"grid must decrease.*grid.flip\(0\)"),
        ({"grid": 50}, TypeError, r"write grid=uniform_grid\(50\)"),
        ({"final": "argmax"}, ValueError, "final must be 'mode', 'sample' or 'none', got 'argmax'"),
        ({"sampler": TauLeaping}, TypeError, r"sampler must be a Sampler such as TauLeaping\(\)"),
        ({"shape": 4}, TypeError, r"the number of samples and then the shape of one"),
        ({"shape": ()}, TypeError, r"the number of samples and then the shape of one"),
        ({"shape": (4, 0)}, ValueError, "every entry of shape must be a whole number >= 1"),
        ({"shape": (4, 2.0)}, TypeError, "every entry of shape"),
        ({"start": torch.zeros(4, 3, dtype=torch.int64)}, ValueError, r"the shape of the samples, \(4, 2\)"),
        ({"start": torch.full((4, 2), 3)}, ValueError, r"start must hold states 0..2"),
        ({"start": torch.zeros(4, 2)}, TypeError, r"start must hold states as int64"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number >= 1"),
        ({"batch_size": 2, "blocks": [2]}, ValueError, r"some of the blocks 0..1 of this request, got \[2\]"),
        ({"blocks": []}, ValueError, "some of the blocks"),
        ({"blocks": [0, 0]}, ValueError, r"name each block once, .*, got \[0, 0\]"),
        ({"blocks": 1}, TypeError, r"got 1: write blocks=\[1\]"),
        ({"trace": 0.5}, TypeError, r"got 0.5: write trace=\[0.5\]"),
        ({"trace": torch.tensor(0.5)}, TypeError, r"got 0.5: write trace=\[0.5\]"),
        ({"trace": ["a"]}, TypeError, "trace must hold times, numbers from 1.0 to 0.01, got 'a'"),
        ({"condition": [0, 1, 2, 0]}, TypeError, "condition must be a tensor .*, got list"),
        ({"generator": 3}, TypeError, r"got int: write torch.Generator\(\).manual_seed"),
        ({"observed": (1, 2)}, TypeError, r"observed must be an Observed\(mask, values\), got tuple"),
        ({"trace": [0.001]}, ValueError, "trace must hold times of the run, from 1.0 to 0.01, got 0.001"),
        ({"condition": torch.zeros(3)}, ValueError, "one entry per sample, 4, along its first axis"),
        (
            {"observed": Observed(torch.tensor([True, False]), torch.full((4, 2), 7))},
            ValueError,
            "observed values must hold states 0..2, got values from 0 to 7",
        ),
        (
            {"observed": Observed(torch.tensor([True, False]), torch.zeros(3, 2, dtype=torch.int64))},
            ValueError,
            r"observed must have the shape of x, \(4, 2\), got \(3, 2\)",
        ),
    ],
)
def test_requests(reverse: ReverseProcess, arguments: Any, error: type[Exception], message: str) -> None:
    request = {"sampler": TauLeaping(), "shape": (4, 2), "grid": uniform_grid(3), **arguments}
    sampler, shape = request.pop("sampler"), request.pop("shape")
    with pytest.raises(error, match=message):
        sample(reverse, sampler, shape, **request)


def test_a_reverse_process_is_needed(reverse: ReverseProcess) -> None:
    with pytest.raises(TypeError, match=r"write ReverseProcess\(process, denoiser\)"):
        sample(reverse.process, TauLeaping(), (4, 2), grid=uniform_grid(3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="reverse must be a ReverseProcess"):
        run_corrector(reverse.process, torch.zeros(1, 2).long(), 0.5, steps=1, step=0.1)  # pyright: ignore[reportArgumentType]


def test_a_step_needs_an_observed(reverse: ReverseProcess) -> None:
    with pytest.raises(TypeError, match=r"observed must be an Observed\(mask, values\), got tuple"):
        TauLeaping().step(reverse, torch.zeros(4, 2).long(), 0.5, 0.4, observed=(1, 2))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "sampler",
    [
        *(TauLeaping(), Ancestral(), Trapezoidal(), Extrapolated(), NextReaction()),
        WithCorrector(TauLeaping("last"), 1),
    ],
    ids=repr,
)
def test_a_denoiser_that_contradicts_its_input(sampler: Any) -> None:
    """Sure of an x0 from which x cannot come: a step, a corrector and the final pass have nothing to draw from."""
    process = BirthDeath(256, Constant(0.1))
    sure = torch.full((4, 1, 256), -torch.inf)
    sure[..., 0] = 0.0
    reverse = ReverseProcess(process, GivenLogits(sure))
    message = (
        "the denoiser('s posterior gives rates that are NaN| returns no distribution at t = \\S+ for 4 of 4 sites)"
    )
    with pytest.raises(ValueError, match=message):
        sampler.step(reverse, torch.full((4, 1), 200), 0.01, 0.005)
    with pytest.raises(ValueError, match=message):
        run_corrector(reverse, torch.full((4, 1), 200), 0.01, steps=1, step=0.01, exact=True)


@pytest.mark.parametrize(("t", "s"), [(0.5, 0.5), (0.3, 0.5), (1.2, 0.5), (0.5, -0.1)])
def test_a_step_must_lead_back_in_time(reverse: ReverseProcess, t: float, s: float) -> None:
    for sampler in (TauLeaping(), Ancestral(), Trapezoidal(), NextReaction(), Uniformization(), FirstJump()):
        with pytest.raises(ValueError, match="a step must lead from t to an earlier time s"):
            sampler.step(reverse, torch.zeros(4, 2).long(), t, s)


def test_where_time_0_cannot_be_reached(reverse: ReverseProcess) -> None:
    with pytest.raises(ValueError, match=r"infinite at time 0: write a grid that ends later, such as end=0.01"):
        sample(reverse, Uniformization(), (4, 2), grid=[1.0, 0.0])
    with pytest.raises(ValueError, match="write look_ahead < 1"):
        sample(reverse, Ancestral(look_ahead=1.0), (4, 2), grid=[1.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"t": 0.0}, ValueError, "t must be > 0"),
        ({"t": 2.0}, ValueError, r"t must lie in \[0, 1\]"),
        ({"steps": 0}, ValueError, "steps must be a whole number >= 1"),
        ({"step": 0.0}, ValueError, "step must be a finite number > 0"),
        ({"multiple_jumps": "add"}, ValueError, "run_corrector with multiple_jumps='reject' or 'last' for Uniform"),
        ({"multiple_jumps": "all"}, ValueError, "multiple_jumps must be"),
        ({"x": torch.full((2, 2), 3)}, ValueError, "x must hold states 0..2"),
        ({"t": torch.tensor([0.4, 0.4])}, ValueError, r"t must be one time for all samples, got shape \(2,\)"),
        ({"observed": (1, 2)}, TypeError, r"observed must be an Observed\(mask, values\), got tuple"),
        ({"condition": [0, 1]}, TypeError, "condition must be a tensor .*, got list"),
        ({"generator": 3}, TypeError, r"got int: write torch.Generator\(\).manual_seed"),
    ],
)
def test_a_run_at_a_fixed_time(reverse: ReverseProcess, arguments: Any, error: type[Exception], message: str) -> None:
    request = {"x": torch.zeros(2, 2).long(), "t": 0.4, "steps": 2, "step": 0.1, **arguments}
    x, t = request.pop("x"), request.pop("t")
    with pytest.raises(error, match=message):
        run_corrector(reverse, x, t, **request)


def test_a_bound_that_float64_cannot_hold() -> None:
    """Far states of a long birth/death chain at a small time: said at once, not after an hour of sampling."""
    process = BirthDeath(200, Constant(0.01))
    reverse = ReverseProcess(process, ExactDenoiser(torch.full((200,), 1 / 200).double(), process))
    with pytest.raises(ValueError, match=r"end the grid at a later time, or write NextReaction\(\)"):
        sample(reverse, Uniformization(), (2, 1), grid=[1.0, 0.01])
