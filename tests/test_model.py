"""A model samples, completes and measures by itself: against exact laws, and in the data's own kind."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tauleap.data.memory import Kind, as_dataset
from tauleap.denoise import ExactDenoiser, NetworkDenoiser
from tauleap.noise import Absorbing, ForwardProcess, LogLinear, RankOne
from tauleap.storage.save import with_checksum
from tauleap.testing.cases import draws
from tauleap.testing.laws import assert_drawn_from, random_law

SIZES = torch.tensor([2, 3, 2])
PRIOR = torch.tensor([[0.4, 0.6, 0.0], [0.2, 0.3, 0.5], [0.7, 0.3, 0.0]])


def exact(process: ForwardProcess) -> tuple[tl.Model, torch.Tensor]:
    law = random_law(process.data_states, 5)
    return tl.Model(process, ExactDenoiser(law, process), shape=(3,)), law


PROCESSES = [RankOne(PRIOR, LogLinear()), Absorbing(4, LogLinear(), sizes=SIZES)]


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_completion_draws_from_the_conditional_law(process: ForwardProcess) -> None:
    """The middle is known and the ends are not, in two ways: by a mask, and as cells that are missing."""
    model, law = exact(process)
    x = torch.tensor([[0, 2, 0]])
    by_mask = model.complete(x, torch.tensor([False, True, False]), variants=1500, steps=50, seed=0)
    missing = tl.data.Dataset(x, 3, missing=torch.tensor([[True, False, True]]))
    as_missing = model.complete(missing, variants=1500, steps=50, seed=1)
    size = process.num_states
    expected = (law[:, 2] / law[:, 2].sum()).reshape(-1)
    for made in (by_mask, as_missing):
        assert made.shape == (1500, 1, 3)
        assert bool((made[..., 1] == 2).all())
        assert_drawn_from(torch.bincount(made[:, 0, 0] * size + made[:, 0, 2], minlength=size**2), expected)


def test_missing_cells_enter_as_noise_and_not_as_what_stands_there() -> None:
    """Whatever x holds in cells that are not known, the completions are the same."""
    model, _ = exact(PROCESSES[0])
    x = torch.tensor([[0, 2, 0], [1, 1, 1]])
    observed = torch.tensor([[True, False, False], [False, False, True]])
    other = torch.where(observed, x, torch.tensor([1, 0, 1]))
    assert torch.equal(model.complete(x, observed, seed=3), model.complete(other, observed, seed=3))
    hidden = tl.data.Dataset(other, 3, missing=~observed)
    assert torch.equal(model.complete(x, observed, seed=3), model.complete(hidden, seed=3))
    assert torch.equal(model.complete(hidden, torch.ones(3, dtype=torch.bool), seed=3), model.complete(hidden, seed=3))


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)
def test_samples_and_bits(process: ForwardProcess) -> None:
    model, law = exact(process)
    made = model.sample(3000, steps=60, seed=0)
    assert made.dtype == torch.int64
    places = process.num_states ** torch.arange(2, -1, -1)
    assert_drawn_from(torch.bincount((made * places).sum(1), minlength=law.numel()), law.reshape(-1))
    assert torch.equal(model.sample(10, seed=7, batch_size=5), model.sample(10, seed=7, batch_size=5))
    x = draws(law, 2000, torch.Generator().manual_seed(0))
    entropy = -float(torch.xlogy(law, law).sum()) / float(torch.log(torch.tensor(2.0))) / 3
    found = model.bits_per_dim(x, seed=0)
    assert abs(found.value - entropy) < 4 * found.stderr


def test_bits_given_observed_cells_and_without_missing_ones() -> None:
    """The conditional entropy of the last cell given the others, and that of the others alone for absorbing noise."""
    model, law = exact(PROCESSES[1])
    law = law[:3, :3, :3]
    x = draws(law, 3000, torch.Generator().manual_seed(0))
    log2 = float(torch.log(torch.tensor(2.0)))
    both = law.sum(2)
    joint, pair = (-float(torch.xlogy(each, each).sum()) / log2 for each in (law, both))
    last = model.bits_per_dim(x, torch.tensor([True, True, False]), seed=0)
    assert abs(last.value - (joint - pair)) < 4 * last.stderr
    missing = torch.tensor([False, False, True]).expand(x.shape)
    first = model.bits_per_dim(tl.data.Dataset(x, 3, missing=missing), seed=0)
    assert abs(first.value - pair / 2) < 4 * first.stderr + 1e-3  # at t = 1 one cell in 1,000 is not masked yet


def test_one_masked_site_has_the_tempered_law() -> None:
    """With absorbing noise a site by itself is drawn from p^(1/T), normalised."""
    process = Absorbing(4, LogLinear())
    law = torch.tensor([0.6, 0.3, 0.1, 0.0], dtype=torch.float64)
    model = tl.Model(process, ExactDenoiser(law, process), shape=(1,))
    for temperature in (0.5, 1.0, 3.0):
        grid = [1.0, 0.5, 0.001]  # one site is exact on any grid
        # At t = 1 the share 0.001 of the sites is not masked, and keeps what the prior gave it.
        expected = 0.999 * law[:3] ** (1 / temperature) / (law[:3] ** (1 / temperature)).sum() + 0.001 / 3
        made = model.sample(5000, grid=grid, temperature=temperature, seed=0)
        assert_drawn_from(torch.bincount(made.flatten(), minlength=3), expected)
    with pytest.raises(ValueError, match="temperature"):
        model.sample(1, temperature=0.0)


def small(shape: tuple[int, ...], num_states: int, **more) -> tl.Model:
    network = tl.network.ResidualMLP(num_states, shape, one_hot=True, mark_observed=True)
    process = more.pop("process", None) or Absorbing(num_states, LogLinear())
    return tl.Model(process, NetworkDenoiser(network), shape=shape, **more)


def test_a_frame_goes_in_and_comes_out(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {
            "colour": ["red", None, "blue", "red"],
            "wheels": [2.0, 4.0, np.nan, 2.0],
            "sold": [True, False, True, True],
            "weight": [0.5, 1.5, 0.5, np.nan],
        }
    )
    rows, form, kind = as_dataset(frame)
    assert rows.sizes is None
    assert rows.missing is not None
    assert rows.missing.tolist() == [
        [False, False, False, False],
        [True, False, False, False],
        [False, True, False, False],
        [False, False, False, True],
    ]
    model = small((4,), 3, form=form, kind=kind)
    model.save(tmp_path / "model")
    again = tl.load(tmp_path / "model")
    made = again.sample(5, steps=3, seed=0)
    assert isinstance(made, pandas.DataFrame)
    assert made.columns.tolist() == ["colour", "wheels", "sold", "weight"]
    assert set(made["colour"]) <= {"red", "blue"}
    assert made["wheels"].dtype == np.float64  # that of the input
    assert set(made["wheels"]) <= {2.0, 4.0}
    assert made["sold"].dtype == np.bool_
    assert made["weight"].dtype == np.float64
    first, second = again.complete(frame, variants=2, steps=3, seed=0)
    for filled in (first, second):
        assert not filled.isna().any().any()
        known = frame.notna()
        assert (filled.where(known).astype(object).fillna(0) == frame.astype(object).fillna(0)).all().all()
    assert again.sample(5, steps=3, seed=0, states=True).dtype == torch.int64
    with pytest.warns(UserWarning, match="column 'colour': row 0: 'green' is not a category"):
        strange = again.complete(frame.assign(colour="green"), steps=3, seed=0)
    assert strange["colour"].tolist() == ["green"] * 4  # a given cell stays as it is
    with pytest.raises(ValueError, match="column 'sold': the column does not exist"):
        again.complete(frame.drop(columns=["sold"]))


def test_texts_go_in_and_come_out(tmp_path: Path) -> None:
    _, form, kind = as_dataset(["abc", "cab"])
    model = small((3,), 4, form=form, kind=kind)
    model.about = {"bits_per_dim": {"value": 1.5}}
    model.save(tmp_path / "model")
    again = tl.load(tmp_path / "model")
    assert again.about == model.about
    assert again.kind == Kind("texts")
    made = again.sample(2, steps=3, seed=0)
    assert [len(text) for text in made] == [3, 3]
    assert set("".join(made)) <= set("abc")
    done = again.complete(["abc"], torch.tensor([True, False, False]), steps=3, seed=0)
    assert done[0][0] == "a"
    with pytest.raises(ValueError, match="text 0 has 'd'"):
        again.complete(["abd"])
    with pytest.raises(ValueError, match="texts must have 3 characters each, but text 0 has 2"):
        again.complete(["ab"])


@pytest.mark.parametrize(
    "given",
    [
        [[0, 1, None], [2, 1, 0]],
        np.array([[0, 1, np.nan], [2, 1, 0]]),
        torch.tensor([[0, 1, float("nan")], [2, 1, 0]]),
        np.ma.masked_equal(np.array([[0, 1, 9], [2, 1, 0]]), 9),
    ],
    ids=["None", "nan", "tensor", "masked"],
)
def test_arrays_with_missing_cells(given) -> None:
    rows, form, kind = as_dataset(given)
    assert form is None
    assert kind == Kind()
    assert rows.num_states == 3
    assert rows.missing is not None
    assert rows.missing.tolist() == [[False, False, True], [False, False, False]]
    assert rows.x[1].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.array([[0.5, 1.0]]), TypeError, "whole numbers"),
        (np.array([[-1, 1]]), ValueError, "subtract the smallest"),
        (np.array([["a", "b"]]), TypeError, "whole numbers"),
        (np.array([3, 1]), ValueError, "one or more rows"),
        ([], ValueError, "one or more rows"),
        ([["x", None]], TypeError, "whole numbers, or None"),
        (object(), TypeError, "whole numbers"),
        (np.array([[np.inf, 1.0]]), TypeError, "whole numbers"),
    ],
)
def test_what_is_not_data(given, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_dataset(given)


def test_lists_of_different_lengths_are_rows_of_tokens() -> None:
    dataset = as_dataset([[0, 1], [2]])[0]
    assert dataset.x.tolist() == [[0, 1, 3], [2, 3, 3]]  # state 3 is the end
    assert dataset.num_states == 4


def test_masks_that_do_not_fit() -> None:
    model = small((3,), 4)
    with pytest.raises(ValueError, match="observed must be a bool mask"):
        model.complete(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"x must have rows of shape \(3,\), \(n, \*shape\), got rows of shape \(4,\)"):
        model.complete(torch.zeros(2, 4, dtype=torch.int64))


def test_names_index_and_masks_of_frames_are_kept(tmp_path: Path) -> None:
    frame = pandas.DataFrame({0: ["x", "y", "x", None], 1: [1, 2, 1, 2]}, index=[7, 8, 9, 5])
    tl.fit(frame, steps=1, progress=False).save(tmp_path / "m")
    model = tl.load(tmp_path / "m")
    assert list(model.sample(3, steps=2, seed=0).columns) == [0, 1]
    filled = model.complete(frame, steps=2, seed=0)
    assert list(filled.index) == [7, 8, 9, 5]
    assert filled[1].tolist() == [1, 2, 1, 2]
    for known in (frame.notna(), frame.notna().to_numpy(), ["0", "1"]):
        assert model.complete(frame, known, steps=2, seed=0).equals(filled)
    with pytest.raises(ValueError, match="observed names 'a': write some of the columns 0, 1"):
        model.complete(frame, ["a"])
    with pytest.raises(ValueError, match="observed must be a bool mask"):
        model.complete(frame, [[True], "x"])


class Labelled(torch.nn.Module):
    """One masked site whose law is that of its label; 2 says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = torch.nn.Embedding(3, 2)
        torch.nn.init.zeros_(self.classes.weight)
        self.classes.weight.data[0, 0] = 1.0

    def forward(self, x, t, *, condition=None):
        label = torch.full((len(x),), 2) if condition is None else condition
        logits = torch.cat([self.classes(label), torch.full((len(x), 1), -torch.inf)], 1)
        return logits[:, None].expand(*x.shape, 3)


def test_guidance_strengthens_class_conditioning() -> None:
    """One masked site has p(x0 | label)^2 / p(x0), normalised, and with a temperature of 1/2 its square."""
    model = tl.Model(Absorbing(3, LogLinear()), NetworkDenoiser(Labelled()), shape=(1,))
    assert model.num_labels == 2
    label, known = torch.zeros(5000, dtype=torch.int64), torch.zeros(1, dtype=torch.bool)
    rows, how = torch.ones(5000, 1, dtype=torch.int64), {"grid": [1.0, 0.5, 0.001], "condition": label, "guidance": 2.0}
    for made, odds in (
        (model.sample(5000, seed=0, **how), 2.0),
        (model.sample(5000, seed=1, temperature=0.5, **how), 4.0),
        (model.complete(rows, known, seed=2, **how), 2.0),
    ):
        law = torch.tensor([odds, 0.0], dtype=torch.float64).softmax(-1)
        # At t = 1 the share 0.001 of the sites is not masked, and keeps what the prior gave it.
        assert_drawn_from(torch.bincount(made.flatten(), minlength=2), 0.999 * law + 0.001 / 2)


def test_guidance_without_a_label_is_refused() -> None:
    labelled = tl.Model(Absorbing(3, LogLinear()), NetworkDenoiser(Labelled()), shape=(1,))
    with pytest.raises(ValueError, match="guidance needs class labels"):
        labelled.sample(2, guidance=2.0)
    other = tl.load("toy")
    assert other.num_labels is None
    with pytest.raises(ValueError, match="guidance needs class labels"):
        other.sample(2, guidance=2.0, condition=torch.zeros(2, dtype=torch.int64))


def test_a_frame_model_of_an_earlier_version(tmp_path: Path) -> None:
    """Its columns were categories, with the types of the frame beside them, and a constant was a site."""
    _, form, kind = as_dataset(pandas.DataFrame({0: ["x", "y"], "n": ["1", "2"], "c": ["u", "v"]}))
    folder = small((3,), 3, form=form, kind=kind).save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    categories = [["x", "y"], ["7", "12"], ["u", "w"]]
    config["form"] = {"kind": "table", "columns": ["0", "n", "c"], "categories": categories, "ordered": False}
    config["kind"] = {"name": "frame", "types": ["text", "int", "text"], "labels": ["int", "text", "text"]}
    (folder / "config.json").write_text(json.dumps(with_checksum(config)))
    model = tl.load(folder)
    made = model.sample(6, steps=2, seed=0)
    assert list(made.columns) == [0, "n", "c"]
    assert made["n"].dtype == np.int64
    assert set(made["n"]) <= {7, 12}
    filled = model.complete(pandas.DataFrame({0: ["x", None], "n": [7.0, None], "c": ["u", "w"]}), steps=2, seed=0)
    assert filled["n"].tolist()[0] == 7
    assert filled["n"].tolist()[1] in (7, 12)
    again = tl.load(model.save(tmp_path / "again"))
    assert again.form == model.form
    assert again.sample(6, steps=2, seed=0).equals(made)
    config["kind"]["types"] = ["text"]
    (folder / "config.json").write_text(json.dumps(with_checksum(config)))
    with pytest.raises(ValueError, match="types of a frame's columns"):
        tl.load(folder)
