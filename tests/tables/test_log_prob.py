"""``model.log_prob`` of tables: the exact frequencies of rows, of their known cells, and given some columns."""

import math

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tests.tables.small import exact_model, rows, states_of


@pytest.fixture(scope="module")
def known() -> tuple[tl.Model, torch.Tensor]:
    return exact_model(rows())


def test_it_is_the_frequency_of_the_states(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    frame = rows().iloc[:50]
    found = model.log_prob(frame, orders=2, seed=0)
    assert torch.allclose(found.value, law[tuple(states_of(model, frame).T)].log(), atol=1e-6)
    assert found.n == 2
    together = model.log_prob(frame, orders=2, batches=[2, 2], seed=0, batch_size=7)
    assert not torch.allclose(together.value, found.value, atol=0.1)


def test_columns_are_conditioned_on_and_empty_cells_are_summed_out(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    frame = rows().iloc[:20]
    x = states_of(model, frame)
    given = model.log_prob(frame, ["owner", "legs"], seed=0)
    pairs = law.sum((1, 2))[x[:, 0], x[:, 3]]
    assert torch.allclose(given.value, (law[tuple(x.T)] / pairs).log(), atol=1e-6)
    gaps = frame.copy()
    gaps["pet"] = None
    missing = model.log_prob(gaps, seed=0)
    assert torch.allclose(missing.value, law.sum(2)[x[:, 0], x[:, 1], x[:, 3]].log(), atol=1e-6)
    for names in (frame.columns[[0, 3]], np.array(["owner", "legs"]), {"owner", "legs"}):
        assert torch.equal(model.log_prob(frame, names, seed=0).value, given.value)
    assert torch.equal(model.log_prob(frame, [], seed=0).value, model.log_prob(frame, seed=0).value)
    both = model.log_prob(gaps, ["owner", "pet"], seed=0)
    assert torch.allclose(both.value, missing.value - law.sum((1, 2, 3))[x[:, 0]].log(), atol=1e-6)


def test_seeds_and_wrong_arguments(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, _ = known
    frame = rows().iloc[:5]
    assert torch.equal(model.log_prob(frame, seed=3).value, model.log_prob(frame, seed=3).value)
    with pytest.raises(ValueError, match="orders must be a whole number >= 1, got 0"):
        model.log_prob(frame, orders=0)
    with pytest.raises(ValueError, match="observed names 'weight': write some of the columns owner, age, pet, legs"):
        model.log_prob(frame, ["weight"])
    with pytest.raises(ValueError, match=r"a list of names or a bool mask .*, got 'pet': write observed=\['pet'\]$"):
        model.log_prob(frame, "pet")
    for row in (frame.iloc[0], dict(frame.iloc[0]), [dict(frame.iloc[0])]):
        with pytest.raises(TypeError, match=r"the rows of the model are those of a table: give a frame, such as"):
            model.log_prob(row)
    with pytest.raises(ValueError, match="every value of row 0 is observed or missing: leave the row out"):
        model.log_prob(pandas.DataFrame({"owner": [True], "age": [None], "pet": [None], "legs": [None]}), ["owner"])
    process = tl.noise.Uniform(3, tl.noise.Constant(1.0))
    other = tl.Model(process, tl.denoise.ExactDenoiser(torch.full((3, 3), 1 / 9), process), shape=(2,))
    with pytest.raises(ValueError, match=r"batches is for absorbing noise, and the model has Uniform: write steps="):
        other.log_prob(torch.zeros(1, 2, dtype=torch.int64), batches=2)
    with pytest.raises(ValueError, match=r"\(2,\), got 'pet': names of columns are for models of tables"):
        other.log_prob(torch.zeros(1, 2, dtype=torch.int64), "pet")


def test_other_noise_has_the_likelihood_of_its_samples() -> None:
    process = tl.noise.RankOne(torch.tensor([0.5, 0.3, 0.2]), tl.noise.LogLinear())
    law = torch.tensor([[0.2, 0.1, 0.1], [0.05, 0.2, 0.05], [0.1, 0.0, 0.2]], dtype=torch.float64)
    model = tl.Model(process, tl.denoise.ExactDenoiser(law, process), shape=(2,))
    found = model.log_prob(torch.tensor([[0, 0], [2, 2]]), orders=200, steps=100, seed=0)
    assert np.allclose(found.value.exp(), [0.2, 0.2], atol=0.02)
    assert found.n == 200
    given = model.log_prob(torch.tensor([[0, 0]]), torch.tensor([True, False]), orders=200, seed=0)
    assert math.isclose(float(given.value.exp()), 0.5, abs_tol=0.02)
