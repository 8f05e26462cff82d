"""``model.predict`` and ``model.predict_proba`` against the exact conditional distributions of a known model."""

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tauleap.testing.laws import assert_drawn_from
from tests.tables.small import columns_of, exact_model, rows

STATES = 5


@pytest.fixture(scope="module")
def known() -> tuple[tl.Model, torch.Tensor]:
    return exact_model(rows())


def _gaps() -> pandas.DataFrame:
    frame = rows().iloc[:40].copy()
    frame.index = [f"r{i}" for i in range(40)]
    frame["owner"] = frame["owner"].astype(object)
    for place, name in enumerate(frame):
        frame.loc[frame.index[place::3], name] = None
    return frame


def _conditional(law: torch.Tensor, states: torch.Tensor, known: torch.Tensor, site: int) -> torch.Tensor:
    """p(state of a site | the known states of a row), by summing the joint law."""
    index = tuple(states[i] if known[i] else slice(None) for i in range(len(states)))
    free = [i for i in range(len(states)) if not known[i]]
    joint = law[index]
    others = [axis for axis, i in enumerate(free) if i != site]
    marginal = joint.sum(others) if others else joint
    return marginal / marginal.sum()


def test_probabilities_are_the_exact_ones(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    gaps = _gaps()
    data = model.encode(gaps)
    assert data.missing is not None
    tables = model.predict_proba(gaps, batch_size=7)
    assert list(tables) == list(gaps)
    assert tables["owner"].columns.tolist() == [False, True]
    assert tables["pet"].columns.tolist() == ["cat", "dog", "fish"]
    assert tables["legs"].columns.tolist() == [0, 2, 4, 8]
    assert " .. " in tables["age"].columns[0]
    for site, (name, table) in enumerate(tables.items()):
        assert table.index.tolist() == gaps.index[gaps[name].isna()].tolist()
        for label, row in table.iterrows():
            place = gaps.index.get_loc(label)
            expected = _conditional(law, data.rows(torch.tensor([place]))[0], ~data.missing[place], site)
            assert np.allclose(row.to_numpy(), expected[: len(row)], atol=1e-6)


def test_predictions_are_modes_means_and_medians(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    gaps, data = _gaps(), model.encode(_gaps())
    best, middle = model.predict(gaps), model.predict(gaps, numbers="median")
    assert best.index.equals(gaps.index)
    given = gaps.notna()
    for frame in (best, middle):
        assert frame.notna().all().all()
        assert (frame[given].astype(object).fillna(0) == gaps[given].astype(object).fillna(0)).all().all()
    age = columns_of(model)[1].encoder
    draws = age.decode(np.repeat(np.arange(age.num_states), 2000), np.random.default_rng(0)).reshape(age.num_states, -1)
    for place in range(40):
        for site, name in enumerate(gaps):
            if given.iloc[place, site]:
                continue
            probs = _conditional(law, data.rows(torch.tensor([place]))[0], ~data.missing[place], site).numpy()
            if name in ("owner", "pet"):
                value = [False, True][probs.argmax()] if name == "owner" else ["cat", "dog", "fish"][probs.argmax()]
                assert best.iloc[place, site] == middle.iloc[place, site] == value
            elif name == "legs":
                assert best.iloc[place, site] == round(float(probs[:4] @ [0, 2, 4, 8]))
                assert middle.iloc[place, site] == [0, 2, 4, 8][int((probs.cumsum() < 0.5).sum())]
            else:
                weights = np.repeat(probs[: age.num_states] / 2000, 2000)
                values = draws.ravel()
                assert best.iloc[place, site] == pytest.approx(weights @ values, abs=0.15)
                below = weights[values <= middle.iloc[place, site]].sum()
                assert below == pytest.approx(0.5, abs=0.02)


def test_many_draws_have_the_predicted_probabilities(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, _ = known
    gaps = pandas.DataFrame({"owner": [True], "age": [None], "pet": [None], "legs": [4]})
    table = model.predict_proba(gaps)["pet"].iloc[0]
    drawn = model.complete(gaps, variants=4000, seed=0, states=True)[:, 0, 2]
    assert_drawn_from(drawn.bincount(minlength=3)[None], torch.tensor(table.to_numpy())[None])


def test_a_prediction_is_never_a_missing_value() -> None:
    """Where missing is the most probable state, the best of the others is predicted, and its probability is shown."""
    frame = pandas.DataFrame({"a": ["x"] * 30 + ["y"] * 30, "b": ["u"] * 4 + [None] * 26 + ["v"] * 30})
    model, _ = exact_model(frame, model_missing=True)
    gaps = pandas.DataFrame({"a": ["x", "y"], "b": [None, None]})
    assert model.predict(gaps, ["a"]).b.tolist() == ["u", "v"]
    table = model.predict_proba(gaps, ["a"])["b"]
    assert table.columns[:2].tolist() == ["u", "v"]
    assert pandas.isna(table.columns[2])
    assert np.allclose(table.to_numpy(), [[4 / 30, 0, 26 / 30], [0, 1, 0]])


def test_arrays_have_modes_and_tensors_of_probabilities() -> None:
    law = torch.zeros(4, 4, 4, dtype=torch.float64)
    law[:3, :3, :3] = torch.rand(3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    law /= law.sum()
    process = tl.noise.Absorbing(4, tl.noise.LogLinear())
    model = tl.Model(process, tl.denoise.ExactDenoiser(law, process), shape=(3,))
    x = torch.tensor([[0, 1, 2], [2, 2, 0], [1, 0, 1]])
    observed = torch.tensor([[True, False, True], [False, True, False], [True, True, True]])
    probs = model.predict_proba(x, observed)
    assert probs.shape == (3, 3, 3)
    assert torch.allclose(probs[0, 1].double(), law[0, :3, 2] / law[0, :3, 2].sum(), atol=1e-6)
    first = law[:3, 2, :3]
    assert torch.allclose(probs[1, 0].double(), first.sum(1) / first.sum(), atol=1e-6)
    assert torch.equal(probs[2], torch.eye(3)[x[2]])
    best = model.predict(x, observed)
    assert torch.equal(best[observed], x[observed])
    assert torch.equal(best[~observed], probs.argmax(-1)[~observed])
