"""``model.surprise`` and ``tauleap score`` against the exact conditional distributions of a known model."""

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tauleap import cli
from tauleap.data.table.columns.unseen import training_range
from tauleap.data.table.format import TableFormat
from tests.tables.small import exact_model, rows, states_of


@pytest.fixture(scope="module")
def known() -> tuple[tl.Model, torch.Tensor]:
    return exact_model(rows())


def _conditional(law: torch.Tensor, states: torch.Tensor, present: torch.Tensor, site: int) -> torch.Tensor:
    index = tuple(states[i] if present[i] and i != site else slice(None) for i in range(len(states)))
    free = [i for i in range(len(states)) if not (present[i] and i != site)]
    joint = law[index].sum([axis for axis, i in enumerate(free) if i != site]) if len(free) > 1 else law[index]
    return joint / joint.sum()


def test_bits_and_scores_are_those_of_the_exact_conditionals(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, law = known
    frame = rows().iloc[:30].copy()
    frame.index = [f"r{i}" for i in range(30)]
    frame["pet"] = frame["pet"].where(frame.index != "r3")
    found = model.surprise(frame, batch_size=7)
    x, present = states_of(model, frame), torch.tensor(frame.notna().to_numpy())
    columns = [law.sum([axis for axis in range(4) if axis != site]) for site in range(4)]
    assert bool(found.bits[3, 2].isnan())
    assert bool(found.scores[3, 2].isnan())
    for row in range(30):
        for site in range(4):
            p = _conditional(law, x[row], present[row], site)
            own = p[x[row, site]]
            assert float(found.likelier_probs[row, site]) == pytest.approx(float(p.max()), abs=1e-5)
            if not present[row, site]:
                continue
            assert float(found.bits[row, site]) == pytest.approx(-math.log2(own), abs=1e-4)
            if own < 0.999:
                odds = columns[site][x[row, site]] * (1 - own) / own
                assert float(found.scores[row, site]) == pytest.approx(math.log2(odds), abs=1e-3)
    assert float(found.row_bits[3]) == pytest.approx(float(found.bits[3, [0, 1, 3]].sum()), abs=1e-9)
    for row, sites in ((5, [0, 1, 2, 3]), (3, [0, 1, 3])):
        odds = (2 ** found.scores[row, sites]).sum()
        assert float(found.row_scores[row]) == pytest.approx(math.log2(odds), abs=1e-9)


def test_cells_are_listed_with_likelier_values(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, _ = known
    frame = rows().iloc[:40].copy()
    frame.index = [f"r{i}" for i in range(40)]
    fish = frame.index[frame.pet == "fish"][0]
    frame.loc[fish, "legs"] = 4  # no fish has legs
    found = model.surprise(frame)
    top = found.cells(0.02)
    assert len(top) == round(0.02 * 160)
    assert set(top.iloc[:2]["column"]) == {"pet", "legs"}
    assert set(top.iloc[:2]["row"]) == {fish}
    legs = top[top["column"] == "legs"].iloc[0]
    assert (legs["value"], legs["likelier"]) == (4, 0)
    assert legs["likelier_probability"] == pytest.approx(1, abs=1e-5)
    assert int(found.row_scores.argmax()) == frame.index.get_loc(fish)
    assert int(found.top(0.0).sum()) == 0
    assert bool(found.top(1.0).all())
    for wrong in (1.5, math.nan):
        with pytest.raises(ValueError, match=r"fraction must be a number in \[0, 1\], got "):
            found.top(wrong)
    ages = found.cells(1.0).query("column == 'age'").set_index("row")["value"]
    assert ages.to_dict() == frame["age"].to_dict()


def test_values_outside_the_training_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    days = pandas.date_range("2020-01-01", periods=300).to_numpy()
    train = pandas.DataFrame({"x": rng.normal(size=300), "day": rng.permutation(days), "kind": ["a", "b", "c"] * 100})
    model = tl.fit(train, steps=2, seed=0, progress=False)
    assert not bool(model.surprise(train.iloc[model_rows(model, train)]).unseen.any())
    rows = pandas.DataFrame(
        {"x": [0.1, -1e3, 1e3, 0.2], "day": [days[3], days[4], days[5], days[0] - np.timedelta64(9, "D")]}
        | {"kind": ["a", "b", None, "b"]},
        index=["p", "q", "r", "s"],
    )
    found = model.surprise(rows)
    assert found.unseen.nonzero().tolist() == [[1, 0], [2, 0], [3, 1]]
    shown = found.cells(1.0).set_index(["row", "column"])["value"]
    assert (shown["q", "x"], shown["s", "day"]) == (-1e3, rows["day"]["s"])
    model.save(tmp_path / "model")
    rows.assign(kind=["a", "z", None, "b"]).to_csv(tmp_path / "rows.csv", index=False)
    command = ["score", tmp_path / "model", tmp_path / "rows.csv", "--out", tmp_path / "scored.csv"]
    assert cli.main(list(map(str, command))) == 0
    assert (
        "training data, in the column unseen_values: 4, the first in line 3: x = -1000.0 (" in capsys.readouterr().out
    )
    unseen = pandas.read_csv(tmp_path / "scored.csv", keep_default_na=False)["unseen_values"]
    assert unseen[0] == ""
    assert re.fullmatch(r"x = -1000.0 \(-\d.* to \d.* in training\); kind = z", unseen[1])
    assert re.fullmatch(r"day = 2019-12-23 \(2020-01-.* to 2020-10-.* in training\)", unseen[3])


def model_rows(model: tl.Model, train: pandas.DataFrame) -> list[int]:
    """The rows whose values the model covers: held-out rows can be outside the training range."""
    assert isinstance(model.form, TableFormat)
    low, high = training_range(model.form.encoder.columns[0]) or (0, 0)
    first, last = training_range(model.form.encoder.columns[1]) or (0, 0)
    inside = train["x"].between(low, high) & train["day"].between(pandas.Timestamp(first), pandas.Timestamp(last))
    assert inside.sum() > 260
    assert low in train["x"].to_numpy()
    assert high in train["x"].to_numpy()
    return np.flatnonzero(inside).tolist()


def test_symbols_of_rows_with_an_end() -> None:
    texts = ["CCO", "CN", "O", "NCCO"] * 10
    model = tl.fit(texts, steps=5, seed=0, progress=False)
    found = model.surprise(texts[:3])
    assert found.bits.isnan().tolist() == [[False] * 4 + [True], [False] * 3 + [True] * 2, [False] * 2 + [True] * 3]
    cells = found.cells(1.0).sort_values(["row", "column"])
    assert cells["value"].tolist() == ["C", "C", "O", "(end)", "C", "N", "(end)", "O", "(end)"]
    assert set(cells["likelier"]) <= {"C", "N", "O", "(end)"}


def test_swapped_cells_have_higher_scores(known: tuple[tl.Model, torch.Tensor]) -> None:
    model, _ = known
    frame = rows().copy()
    swapped = pandas.Series(range(600)).sample(60, random_state=0).to_numpy()
    original = frame["legs"].to_numpy().copy()
    frame.loc[swapped, "legs"] = original[pandas.Series(swapped).sample(60, random_state=1).to_numpy()]
    changed = frame["legs"].to_numpy() != original
    scores = model.surprise(frame).scores[:, 3].numpy()
    assert scores[changed].mean() > scores[~changed].mean() + 1


def test_other_noise() -> None:
    process = tl.noise.RankOne(torch.tensor([0.5, 0.5]), tl.noise.LogLinear())
    law = torch.tensor([[0.45, 0.05], [0.05, 0.45]], dtype=torch.float64)
    model = tl.Model(process, tl.denoise.ExactDenoiser(law, process), shape=(2,))
    found = model.surprise(torch.tensor([[0, 0], [0, 1]]), seed=0)
    assert torch.allclose(found.bits, -torch.tensor([[0.9, 0.9], [0.1, 0.1]], dtype=torch.float64).log2(), atol=0.02)
    assert found.cells(0.5)["row"].tolist() == [1, 1]


class OfClass(tl.denoise.Denoiser):
    """The exact denoiser of one of two laws, by the class of each row."""

    uses_time = False  # pyright: ignore[reportAssignmentType]

    def __init__(self, laws: list[torch.Tensor], process: tl.noise.ForwardProcess) -> None:
        super().__init__()
        self.exact = torch.nn.ModuleList(tl.denoise.ExactDenoiser(law, process) for law in laws)

    def forward(self, x_t, t, *, observed=None, condition=None):
        both = [each(x_t, t, observed=observed).log_probs for each in self.exact]
        return tl.denoise.Posterior(torch.where(condition[:, None, None] == 0, *both))


def test_each_row_has_its_own_condition() -> None:
    process = tl.noise.Absorbing(3, tl.noise.LogLinear())
    laws = [torch.zeros(3, 3, dtype=torch.float64) for _ in range(2)]
    laws[0][:2, :2] = torch.tensor([[0.4, 0.1], [0.2, 0.3]])
    laws[1][:2, :2] = torch.tensor([[0.1, 0.6], [0.1, 0.2]])
    model = tl.Model(process, OfClass(laws, process), shape=(2,))
    x, classes = torch.tensor([[0, 1], [0, 1], [1, 0]]), torch.tensor([0, 1, 1])
    found = model.surprise(x, condition=classes, batch_size=2)
    likely = model.log_prob(x, condition=classes, orders=3, batch_size=2)
    for row, (state, number) in enumerate(zip(x, classes, strict=True)):
        law = laws[number]
        assert float(likely.value[row].exp()) == pytest.approx(float(law[tuple(state)]), abs=1e-6)
        for site in range(2):
            own = law[tuple(state)] / law.sum(site)[state[1 - site]]
            odds = law.sum(1 - site)[state[site]] * (1 - own) / own
            assert float(found.bits[row, site]) == pytest.approx(-math.log2(own), abs=1e-5)
            assert float(found.scores[row, site]) == pytest.approx(math.log2(odds), abs=1e-5)


def test_a_row_without_known_values_is_an_error(known: tuple[tl.Model, torch.Tensor]) -> None:
    empty = pandas.DataFrame({"owner": [True, None], "age": [None, None], "pet": [None, None], "legs": [None, None]})
    with pytest.raises(ValueError, match="row 1 has no known value: leave the row out"):
        known[0].surprise(empty)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    tl.fit(rows(), steps=5, seed=0, progress=False).save(folder)
    return folder


def test_the_command_writes_the_rows_with_their_scores(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = rows().iloc[:20].to_csv(index=False).splitlines()
    text[3] = ",,,"
    Path("rows.csv").write_text("\n".join(["owner,age,pet,legs,note", *(f"{line},x" for line in text[1:])]) + "\n")
    assert cli.main(["score", str(run_folder), "rows.csv", "--mark", "0.1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["scored_rows"], facts["files"]) == (20, 19, ["rows-scored.csv"])
    assert facts["marked"] == round(0.1 * 19 * 4)
    with open("rows-scored.csv", newline="") as file:
        written = list(csv.DictReader(file))
    assert list(written[0])[:5] == ["owner", "age", "pet", "legs", "note"]
    assert list(written[0])[5:9] == ["row_score", "row_bits", "surprising_cells", "unseen_values"]
    assert list(written[0])[9:] == ["owner bits", "age bits", "pet bits", "legs bits"]
    assert [row["age"] for row in written] == [line.split(",")[1] for line in text[1:]]
    assert written[2]["row_bits"] == ""
    found = tl.load(run_folder, device="cpu").surprise(rows().iloc[:2])
    assert float(written[0]["pet bits"]) == pytest.approx(float(found.bits[0, 2]), abs=0.01)
    assert float(written[1]["row_score"]) == pytest.approx(float(found.row_scores[1]), abs=0.01)
    assert sum(" bits; likelier: " in row["surprising_cells"] for row in written) > 0
    assert cli.main(["score", str(run_folder), "rows.csv"]) == 2
    assert "rows-scored.csv exists already: write the name of a new file with --out" in capsys.readouterr().err
    assert cli.main(["score", str(run_folder), "rows.csv", "--out", "again.csv"]) == 0
    assert "cells of 20 rows are marked: again.csv" in capsys.readouterr().out


def test_the_command_names_rows_without_values_and_uses_the_words_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "kind,paid\n" + "big,yes\nsmall,no\n" * 40
    Path("train.csv").write_text(text)
    tl.fit(tl.data.open_data("train.csv"), steps=40, seed=0, progress=False).save("model")
    Path("rows.csv").write_text("kind,paid\nbig,yes\n,\nsmall,yes\n,huh\n")
    assert cli.main(["score", "model", "rows.csv", "--mark", "1", "--out", "out.csv"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 4 rows without a known value have no score, the first is line 3" in shown
    assert "the most surprising cells, by score:\nline 4, score " in shown
    assert "data, in the column unseen_values" not in shown
    assert "paid = yes (" in shown
    assert "likelier: no, " in shown
    assert "\n4 of 4 cells of 4 rows are marked: out.csv" in shown
    assert "True" not in shown + Path("out.csv").read_text()
    Path("rows.csv").write_text("kind,paid\nbig,yes\n")
    assert cli.main(["score", "model", "rows.csv", "--out", "one.csv"]) == 0
    assert "0 of 2 cells of 1 row are marked: one.csv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mark", "2"], "--mark must be a fraction from 0 to 1, got 2.0"),
        (["--out", "scored.parquet"], "--out must end in .csv or .tsv, got scored.parquet"),
        (["--out", "nowhere/scored.csv"], "nowhere is not a folder: create it"),
    ],
)
def test_wrong_options(
    arguments: list[str], message: str, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    rows().iloc[:3].to_csv(file, index=False)
    assert cli.main(["score", str(run_folder), str(file), *arguments]) == 2
    assert message in capsys.readouterr().err
