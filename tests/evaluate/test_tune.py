"""Tuning: measured errors are those of enumeration, and a model keeps them and samples with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap.noise import Absorbing, LogLinear
from tauleap.sampling import TimeTuning, UnmaskingTuning, uniform_grid
from tauleap.storage.save import with_checksum
from tauleap.testing.cases import NAMES, correlated, draws
from tauleap.testing.steps import mean_entropies, step_errors


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "absorbing"])
def test_predicted_errors_are_exact_for_few_and_for_many_steps(name: str) -> None:
    """Within 3 standard errors and 3 %: 4 % to 6 % of standard error with 4,000 rows."""
    reverse, law = correlated(name, 2)
    rows = draws(law, 4000, seeded(0))
    tuning = tl.tune(reverse, rows, batch_size=2000, seconds=1000.0, generator=seeded())
    assert isinstance(tuning, TimeTuning)
    assert tuning.rows == 4000
    assert tuning.relative_stderr is not None
    assert 0.02 < tuning.relative_stderr < 0.06
    allowed = 3 * tuning.relative_stderr + 0.03
    for steps in (1, 4, 32, 80):
        tuned, even = tuning.grid(steps), tuple(uniform_grid(steps, end=0.0).tolist())
        exact = float(step_errors(reverse, law, tuned).sum())
        assert tuning.error(steps) == pytest.approx(exact, rel=allowed)
        exact_even = float(step_errors(reverse, law, even).sum())
        assert tuning.error_of(even) == pytest.approx(exact_even, rel=allowed)
        if steps > 1:
            assert exact < 0.75 * exact_even


def test_mean_cross_entropies_are_exact() -> None:
    """Within 4 standard errors of the mean of 4,000 rows."""
    reverse, law = correlated("absorbing", 4, num_states=2)
    tuning = tl.tune(reverse, draws(law, 4000, seeded(0)), generator=seeded())
    assert isinstance(tuning, UnmaskingTuning)
    assert tuning.known == (0, 1, 2, 3)
    exact = UnmaskingTuning(1, None, 4, (0, 1, 2, 3), tuple(mean_entropies(law)))
    np.testing.assert_allclose(tuning.entropy, exact.entropy, atol=4 * 0.6 / 4000**0.5)
    assert tuning.error(1) == pytest.approx(exact.error(1), abs=0.03)
    assert tuning.numbers(2) == exact.numbers(2)


def test_many_sites_are_measured_at_some_numbers() -> None:
    process = Absorbing(4, LogLinear())
    model = tl.Model(process, tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(4, (50,))), shape=(50,))
    tuning = tl.tune(model, torch.randint(3, (40, 50), generator=seeded()), generator=seeded())
    assert isinstance(tuning, UnmaskingTuning)
    assert 25 < len(tuning.known) <= 33
    assert (tuning.known[0], tuning.known[-1]) == (0, 49)
    assert model.tuning == tuning


def small_model() -> tl.Model:
    reverse, _ = correlated("uniform", 2)
    torch.manual_seed(0)
    return tl.Model(reverse.process, tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(3, (2,))), shape=(2,))


def tuned_model() -> tl.Model:
    model = small_model()
    model.tuning = TimeTuning(64, 0.1, (0.0, 0.3, 1.0), ((0.2, 0.5), (0.1,)))
    return model


def test_a_saved_model_is_still_tuned(tmp_path: Path) -> None:
    model = tuned_model()
    model.save(tmp_path / "tuned")
    loaded = tl.load(tmp_path / "tuned")
    assert loaded.tuning == model.tuning
    assert torch.equal(loaded.sample(6, tol=0.1, seed=0), model.sample(6, tol=0.1, seed=0))
    untuned = small_model()
    untuned.save(tmp_path / "untuned")
    assert tl.load(tmp_path / "untuned").tuning is None
    loaded.tuning = None
    assert "tuning" not in loaded.about


@pytest.mark.parametrize(
    "change",
    [
        {"tuning": {"kind": "times"}},
        {"tuning": 3},
        {"tuning": UnmaskingTuning(1, None, 2, (0,), (0.5,)).config()},
    ],
)
def test_an_invalid_tuning_is_found_when_the_model_is_loaded(tmp_path: Path, change: dict[str, Any]) -> None:
    tuned_model().save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["about"] |= change
    path.write_text(json.dumps(with_checksum(config)))
    with pytest.raises(ValueError, match="tuning"):
        tl.load(tmp_path / "model")


def test_a_tuned_model_samples_and_completes_with_its_plan() -> None:
    model = tuned_model()
    plan, within = model.sampling_plan(steps=7), model.sampling_plan(tol=0.05)
    assert model.tuning is not None
    assert (plan.grid_name, plan.evaluations) == ("tuned", 7)
    assert within.evaluations == model.tuning.steps(0.05)
    assert model.sample(5, tol=0.05, seed=0).shape == (5, 2)
    by_hand = model.sample(5, grid=within.grid, seed=0)
    assert torch.equal(by_hand, model.sample(5, tol=0.05, seed=0))
    x = torch.zeros(4, 2, dtype=torch.int64)
    filled = model.complete(x, torch.tensor([True, False]), tol=0.05, seed=0)
    assert bool((filled[:, 0] == 0).all())
    assert model.log_prob(x, steps=4, orders=2, seed=0).value.shape == (4,)
    with pytest.raises(ValueError, match="excludes steps"):
        model.sample(5, tol=0.05, steps=3)
    with pytest.raises(ValueError, match="tol needs a tuned model"):
        small_model().sample(5, tol=0.05)


def test_samples_of_a_tuned_model_have_the_law_of_the_data() -> None:
    """The error of the steps is within the tolerance: chi-square with few samples does not see 0.002 nats."""
    from tauleap.testing.cases import counts
    from tauleap.testing.laws import assert_drawn_from

    for name in ("uniform", "absorbing"):
        reverse, law = correlated(name, 3, num_states=2)
        model = tl.Model(reverse.process, reverse.denoiser, shape=(3,))
        tl.tune(model, draws(law, 2000, seeded(0)), generator=seeded())
        assert model.tuning is not None
        assert model.tuning.error(model.tuning.steps(0.002)) <= 0.002
        x = model.sample(1500, tol=0.002, seed=0)
        assert_drawn_from(counts(x, law), law.reshape(-1))


@pytest.mark.usefixtures("unchecked")
def test_a_tuning_of_another_model_is_refused() -> None:
    model = small_model()
    with pytest.raises(ValueError, match="only absorbing noise uses"):
        model.tuning = UnmaskingTuning(1, None, 2, (0,), (0.5,))
    with pytest.raises(TypeError, match=r"must be the result of tauleap.tune, got dict"):
        model.tuning = {}  # type: ignore[assignment]
    masked = tl.Model(
        Absorbing(3, LogLinear()), tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(3, (2,))), shape=(2,)
    )
    with pytest.raises(ValueError, match="for rows of 3 sites, and the model has 2"):
        masked.tuning = UnmaskingTuning(1, None, 3, (0,), (0.5,))
    with pytest.raises(ValueError, match="absorbing noise needs numbers of sites"):
        masked.tuning = TimeTuning(1, None, (0.0, 1.0), ((0.5,),))


def test_the_time_and_the_rows_are_limited() -> None:
    model = small_model()
    rows = torch.randint(3, (300, 2), generator=seeded())
    assert tl.tune(model, rows, most_rows=20, generator=seeded()).rows == 20
    assert tl.tune(model, rows, seconds=1e-6, batch_size=8, generator=seeded()).rows == 8
    one = tl.tune(model, rows, most_rows=1, generator=seeded())
    assert one.relative_stderr is None
    first, again = (tl.tune(model, rows, most_rows=50, generator=seeded(4)) for _ in range(2))
    assert first == again


def test_labels_of_the_rows_reach_the_network() -> None:
    seen = []

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classes = torch.nn.Embedding(4, 1)

        def forward(self, x: Any, t: Any, condition: Any) -> Any:
            seen.append(condition)
            return torch.zeros(*x.shape, 3)

    process = correlated("absorbing", 2, num_states=2)[0].process
    model = tl.Model(process, tl.denoise.NetworkDenoiser(Network()), shape=(2,))
    data = tl.data.Dataset(torch.zeros(4, 2, dtype=torch.int64), 2, condition=torch.tensor([0, 1, 2, 1]))
    tl.tune(model, data)
    assert seen[0].tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": 3}, TypeError, "tune takes a model or a ReverseProcess, got int"),
        ({"most_rows": 0}, ValueError, "most_rows must be a whole number >= 1"),
        ({"seconds": 0}, ValueError, "seconds must be a finite number > 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number >= 1"),
        ({"condition": torch.zeros(1)}, ValueError, "one entry per sample"),
        ({"generator": 3}, TypeError, "generator must be a torch.Generator"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"model": small_model(), "rows": torch.zeros(2, 2).long()} | arguments
    with pytest.raises(error, match=message):
        tl.tune(given.pop("model"), given.pop("rows"), **given)


def test_rows_of_probability_zero() -> None:
    reverse, _ = correlated("absorbing", 2, num_states=2)
    law = torch.zeros(3, 3, dtype=torch.float64)
    law[0, 0] = 1
    reverse = tl.ReverseProcess(reverse.process, tl.denoise.ExactDenoiser(law, reverse.process))
    with pytest.raises(ValueError, match="probability 0"):
        tl.tune(reverse, torch.ones(3, 2).long())
