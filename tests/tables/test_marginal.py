"""``model.marginal`` against the exact conditional distributions of a known model."""

from typing import Any

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tauleap.data.table.columns.condition import Condition
from tauleap.data.table.format import TableFormat
from tauleap.marginals import counted_joint, joint_of_sites
from tests.tables.small import exact_model, rows


@pytest.fixture(scope="module")
def known() -> tuple[tl.Model, torch.Tensor]:
    model, law = exact_model(rows())
    assert isinstance(model.form, TableFormat)
    return model, law[tuple(slice(size) for size in model.form.encoder.sizes)]


def normalised(law: torch.Tensor) -> np.ndarray:
    return (law / law.sum()).numpy()


def test_one_column(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    found = model.marginal("pet")
    assert found.index.tolist() == ["cat", "dog", "fish"]
    assert found.index.name == "pet"
    assert np.allclose(found.probability, law.sum((0, 1, 3)), atol=1e-6)
    assert (found.stderr == 0).all()
    assert found.attrs == {"probability_of_given": 1.0}
    given = model.marginal("pet", {"owner": True, "legs": 4})
    assert np.allclose(given.probability, normalised(law[1, :, :, 2].sum(0)), atol=1e-6)
    assert given.attrs["probability_of_given"] == pytest.approx(float(law[1, :, :, 2].sum()), abs=1e-6)
    ages = model.marginal("age", {"pet": "fish"})
    assert all(" .. " in label for label in ages.index)
    assert np.allclose(ages.probability, normalised(law[:, :, 2].sum((0, 2))), atol=1e-6)


def test_several_columns(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    found = model.marginal(["legs", "pet"], {"owner": False})
    assert found.index.names == ["legs", "pet"]
    expected = law[0].sum(0).T
    assert np.allclose(found.probability, normalised(expected).ravel(), atol=1e-6)
    assert found.probability[(0, "fish")] == pytest.approx(float(law[0, :, 2, 0].sum() / law[0].sum()), abs=1e-6)
    every = model.marginal(["owner", "age", "pet", "legs"], batch_size=3)
    assert np.allclose(every.probability, law.ravel(), atol=1e-6)


def fractions(model: tl.Model, low: float, high: float) -> torch.Tensor:
    """The fraction of the values of each bin of age that is in a range."""
    assert isinstance(model.form, TableFormat)
    condition = model.form.encoder.conditioned({"age": (low, high)}).columns[1].condition
    assert isinstance(condition, Condition)
    return torch.from_numpy(condition.weights)


def test_ranges_and_lists(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    weights = fractions(model, 20, 33)
    assert ((weights > 0) & (weights < 1)).any()
    joint = torch.einsum("oapl,a->opl", law, weights)
    found = model.marginal("owner", {"age": (20, 33), "pet": ["cat", "dog"]})
    assert np.allclose(found.probability, normalised(joint[:, :2].sum((1, 2))), atol=1e-6)
    assert (found.stderr == 0).all()
    assert found.attrs["probability_of_given"] == pytest.approx(float(joint[:, :2].sum()), abs=1e-6)
    mixed = model.marginal(["owner", "legs"], {"age": (20, 33), "pet": ["cat", "fish"]})
    assert np.allclose(mixed.probability, normalised(joint[:, [0, 2]].sum(1)).ravel(), atol=1e-6)


def test_many_combinations_are_drawn(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, _ = known
    given: dict[str, Any] = {"age": (10, 33), "pet": ["cat", "dog"], "legs": (2, 8)}
    exact = model.marginal("owner", given)
    drawn = [model.marginal("owner", given, samples=14, seed=seed) for seed in range(40)]
    values = np.array([each.probability[True] for each in drawn])
    claimed = np.array([each.stderr[True] for each in drawn])
    # The ratio of two means has a bias of the order of 1 / samples.
    assert abs(values.mean() - exact.probability[True]) < 4 * values.std() / 40**0.5 + 0.01
    assert 0.7 < np.sqrt((claimed**2).mean()) / values.std() < 1.4
    assert 5 < drawn[0].attrs["effective_sample_size"] <= 14
    assert drawn[0].attrs["probability_of_given"] == pytest.approx(exact.attrs["probability_of_given"], abs=0.15)
    fixed = given | {"legs": 4}
    some, every = (model.marginal("owner", fixed, samples=n, seed=0).attrs["probability_of_given"] for n in (5, 1000))
    assert 0.5 < some / every < 2
    repeated = model.marginal("owner", given, samples=14, seed=0)
    pandas.testing.assert_frame_equal(repeated, drawn[0])


class OfClass(tl.denoise.Denoiser):
    """The exact denoiser of one of two laws, by the class of each row."""

    uses_time = False  # pyright: ignore[reportAssignmentType]

    def __init__(self, laws: list[torch.Tensor], process: tl.noise.ForwardProcess) -> None:
        super().__init__()
        self.exact = torch.nn.ModuleList(tl.denoise.ExactDenoiser(law, process) for law in laws)

    def forward(self, x_t, t, *, observed=None, condition=None):
        assert condition is not None
        assert len(condition) == len(x_t)
        if x_t.max() == 3:  # masked: the other sites are observed
            assert observed is not None
            assert torch.equal(observed.mask, x_t < 3)
        both = [each(x_t, t, observed=observed).log_probs for each in self.exact]
        return tl.denoise.Posterior(torch.where(condition[:, None, None] == 0, *both))


@pytest.mark.parametrize("absorbing", [True, False])
def test_a_condition_of_the_network(absorbing: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    laws = [torch.rand(3, 3, 3, dtype=torch.float64, generator=generator) for _ in range(2)]
    laws = [law / law.sum() for law in laws]
    process: tl.noise.ForwardProcess = tl.noise.RankOne(torch.full((3,), 1 / 3), tl.noise.LogLinear())
    own = laws
    if absorbing:
        process = tl.noise.Absorbing(4, tl.noise.LogLinear())
        own = [torch.nn.functional.pad(law, (0, 1) * 3) for law in laws]
    model = tl.Model(process, OfClass(own, process), shape=(3,))
    for label, law in enumerate(laws):
        options: dict[str, Any] = {"condition": torch.tensor([label]), "steps": 20, "seed": 0}
        found = model.marginal(2, {0: [0, 2]}, samples=2000, **options)
        expected = normalised(law[[0, 2]].sum((0, 1)))
        assert (np.abs(found.probability - expected) < 4 * found.stderr + (1e-6 if absorbing else 0.02)).all()
        if absorbing:
            drawn = model.marginal(2, {0: [0, 2], 1: [0, 1]}, samples=3, **options)
            assert (drawn.stderr > 0).all()
            every = [model.marginal(2, {0: 0}, samples=1, **options).probability, normalised(law[0].sum(0))]
            assert np.allclose(*every, atol=1e-6)
    with pytest.raises(ValueError, match=r"condition must have one entry, got shape \(2,\): write condition\[:1\]"):
        model.marginal(2, condition=torch.tensor([0, 1]))


def test_a_missing_value_is_a_value() -> None:
    frame = pandas.DataFrame({"a": ["x"] * 30 + ["y"] * 30, "b": ["u"] * 4 + [None] * 26 + ["v"] * 30})
    model, _ = exact_model(frame, model_missing=True)
    found = model.marginal("b", {"a": "x"})
    assert found.index[:2].tolist() == ["u", "v"]
    assert pandas.isna(found.index[2])
    assert np.allclose(found.probability, [4 / 30, 0, 26 / 30], atol=1e-6)
    assert model.marginal("a", {"b": None}).probability.tolist() == pytest.approx([1, 0], abs=1e-6)


def test_other_noise_counts_samples() -> None:
    process = tl.noise.RankOne(torch.tensor([0.5, 0.3, 0.2]), tl.noise.LogLinear())
    law = torch.rand(3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    law /= law.sum()
    model = tl.Model(process, tl.denoise.ExactDenoiser(law, process), shape=(3,))
    cases: list[tuple[Any, Any, torch.Tensor]] = [
        (0, {}, law.sum((1, 2))),
        (2, {0: 1}, law[1].sum(0)),
        ([2, 1], {0: 1}, law[1].T),
        (2, {0: 1, 1: [0, 2]}, law[1, [0, 2]].sum(0)),
    ]
    for columns, given, expected in cases:
        found = model.marginal(columns, given, samples=2000, steps=25, seed=0)
        expected = (expected / expected.sum()).numpy().ravel()
        assert (np.abs(found.probability - expected) < 4 * found.stderr + 0.01).all()
        assert (np.abs(found.stderr**2 - expected * (1 - expected) / found.attrs["effective_sample_size"]) < 2e-5).all()
    absorbing = tl.noise.Absorbing(4, tl.noise.LogLinear())
    padded = torch.nn.functional.pad(law, (0, 1) * 3)
    model = tl.Model(absorbing, tl.denoise.ExactDenoiser(padded, absorbing), shape=(3,))
    for columns, given, expected in cases:
        found = model.marginal(columns, given).probability
        assert np.allclose(found, (expected / expected.sum()).numpy().ravel(), atol=1e-6)


def test_few_draws_are_not_certain(known: tuple[tl.Model, torch.Tensor]) -> None:
    """One draw has no error of its own, and a state that no sample has is not impossible."""
    found = known[0].marginal("owner", {"age": (10, 33), "pet": ["cat", "dog"]}, samples=1, seed=0)
    assert found.attrs["effective_sample_size"] == 1
    assert np.isinf(found.stderr).all()
    process = tl.noise.RankOne(torch.tensor([0.5, 0.3, 0.2]), tl.noise.LogLinear())
    law = torch.tensor([[0.98, 0.0, 0.0], [0.01, 0.0, 0.0], [0.01, 0.0, 0.0]], dtype=torch.float64)
    model = tl.Model(process, tl.denoise.ExactDenoiser(law, process), shape=(2,))
    for samples in (1, 10):
        never = model.marginal(1, samples=samples, steps=5, seed=0)
        assert never.probability.tolist() == [1, 0, 0]
        assert (never.stderr > 0.5 / (samples + 1)).all()
        assert (never.stderr < 1 / samples).all()


def test_errors_of_few_draws_and_of_fractional_weights(known: tuple[tl.Model, torch.Tensor]) -> None:
    """The claimed variances are those over repetitions."""
    found = [known[0].marginal("owner", {"age": (10, 33)}, samples=2, seed=seed) for seed in range(200)]
    claimed = np.mean([each.stderr[True] ** 2 for each in found])
    assert 0.7 < claimed / np.var([each.probability[True] for each in found]) < 1.4
    generator = torch.Generator().manual_seed(0)
    weights = {1: torch.tensor([1.0, 0.3, 0.02])}
    law = torch.tensor([0.05, 0.05, 0.3, 0.3, 0.2, 0.1])
    joints = []
    for _ in range(400):
        states = torch.multinomial(law, 300, replacement=True, generator=generator)
        joints.append(counted_joint(torch.stack([states // 3, states % 3], 1), (0,), (2,), weights))
    claimed = np.mean([float(each.stderr[0]) ** 2 for each in joints])
    assert 0.8 < claimed / np.var([float(each.probs[0]) for each in joints]) < 1.25


def test_too_many_combinations_are_refused_before_they_fill_the_memory(known: tuple[tl.Model, torch.Tensor]) -> None:
    options: dict[str, Any] = {"samples": 1000, "batch_size": 10}
    with pytest.raises(
        ValueError, match=r"67,108,864 combinations of states.*which is too many: write fewer columns in a call$"
    ):
        joint_of_sites(known[0].reverse, (4,), (0, 1), (2**13, 2**13), {}, **options)
    two = {2: torch.tensor([1.0, 1.0])}
    with pytest.raises(ValueError, match=r"under 2 combinations of conditions, which .* or write samples=1"):
        joint_of_sites(known[0].reverse, (4,), (0, 1), (2**13, 2**12), two, **options)


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ("weight", {}, r"there is no column 'weight': write one of owner, age, pet, legs"),
        (["pet", "weight"], {}, "there is no column 'weight'"),
        (0, {}, "there is no column 0"),
        ([], {}, "columns is empty: write the name of a column or more"),
        (["pet", "pet"], {}, "'pet' is twice in columns: leave one of them out"),
        ("pet", {"pet": "cat"}, "'pet' is in columns and in given: leave one of them out"),
        ("pet", {"weight": 3}, "given 'weight': there is no such column: write one of owner, age, pet, legs"),
        ("owner", {"pet": "fish", "legs": 4}, "no row can fulfil all conditions at once"),
        ("owner", {"pet": "fish", "legs": (2, 8)}, "no row can fulfil all conditions at once"),
    ],
)
def test_wrong_questions(known: tuple[tl.Model, torch.Tensor], columns: Any, given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        known[0].marginal(columns, given)


def test_wrong_sites_and_types(known: tuple[tl.Model, torch.Tensor]) -> None:
    process = tl.noise.Absorbing(3, tl.noise.LogLinear())
    law = torch.zeros(3, 3)
    law[:2, :2] = 0.25
    model = tl.Model(process, tl.denoise.ExactDenoiser(law, process), shape=(2,))
    with pytest.raises(ValueError, match="there is no site 2: write its position in the flattened row, 0 to 1"):
        model.marginal(2)
    with pytest.raises(ValueError, match="there is no site 5"):
        model.marginal(0, {5: 0})
    with pytest.raises(ValueError, match="given 1: 2 is not a state of this site: write 0 to 1, or a list"):
        model.marginal(0, {1: 2})
    with pytest.raises(ValueError, match="samples must be a whole number >= 1, got 0"):
        known[0].marginal("pet", samples=0)
