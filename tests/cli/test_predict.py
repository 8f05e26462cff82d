"""``tauleap complete --mode best`` and ``--mode probabilities``: predictions from one evaluation, in files."""

import json
from pathlib import Path

import pandas
import pytest

import tauleap as tl
from tauleap import cli
from tests.tables.small import exact_model, rows

GAPS = "legs,pet,note,owner,age\n4,,a,True,\n,dog,b,,12.5\n0,fish,c,False,30\n"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> tl.Model:
    """The exact model, which the command finds in every folder; saved models have networks."""
    model, _ = exact_model(rows())
    monkeypatch.setattr("tauleap.cli.run.complete.load_model", lambda folder, device: (model, model.form))
    return model


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "run").mkdir()
    (tmp_path / "gaps.csv").write_text(GAPS)
    return ["complete", str(tmp_path / "run"), str(tmp_path / "gaps.csv"), "--out", str(tmp_path / "out")]


def test_best_values_fill_the_gaps(
    model: tl.Model, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--mode", "best"]) == 0
    assert "4 values of 3 rows predicted" in capsys.readouterr().out
    found = pandas.read_csv(tmp_path / "out" / "completed.csv")
    expected = model.predict(pandas.read_csv(tmp_path / "gaps.csv"))
    assert found.columns.tolist() == ["legs", "pet", "note", "owner", "age"]
    assert found.note.tolist() == ["a", "b", "c"]
    assert found.iloc[2].tolist() == [0, "fish", "c", False, 30]
    for name in ("legs", "pet", "owner", "age"):
        assert found[name].tolist() == expected[name].tolist()


def test_probabilities_are_a_table(
    model: tl.Model, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--mode", "probabilities", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["filled"] == 4
    found = pandas.read_csv(facts["files"][0])
    assert sorted(set(zip(found.row, found.column, strict=True))) == [(0, "age"), (0, "pet"), (1, "legs"), (1, "owner")]
    assert found.groupby(["row", "column"]).probability.sum().round(4).tolist() == [1.0] * 4
    tables = model.predict_proba(pandas.read_csv(tmp_path / "gaps.csv"))
    pets = found[found.column == "pet"].set_index("value").probability
    assert pets.to_dict() == pytest.approx(tables["pet"].iloc[0].loc[lambda p: p > 1e-6].to_dict(), abs=1e-6)
    assert pets.is_monotonic_decreasing


def test_other_data_has_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a"
    assert cli.main(["complete", "music-small", "--mode", "best", "--out", str(out)]) == 0
    assert "224 values of 1 rows predicted" in capsys.readouterr().out
    assert len(list(out.iterdir())) == 2  # the melody and its picture
    assert cli.main(["complete", "music-small", "--mode", "probabilities", "--out", str(tmp_path / "b")]) == 2
    assert "--mode probabilities is for models of tables, and this is a model of midi" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "option", [["--variants", "2"], ["--steps", "3"], ["--temperature", "0.5"], ["--sampler", "ancestral"]]
)
def test_predictions_have_no_options_of_sampling(
    words: list[str], tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--mode", "best", *option]) == 2
    assert f"{option[0]} needs --mode draw, got --mode best: leave {option[0]} out" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
