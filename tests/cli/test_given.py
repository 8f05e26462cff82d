"""``tauleap sample RUN --given``: conditions from the command line to the file."""

import json
from pathlib import Path

import pandas
import pytest

import tauleap as tl
from tauleap import cli
from tauleap.cli.given import parse_given
from tests.tables.small import exact_model, rows


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the command finds the exact model; saved models have networks."""
    model, _ = exact_model(rows())
    monkeypatch.setattr("tauleap.cli.run.sample.load_model", lambda folder, device: (model, model.form))
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_samples_meet_the_conditions(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sample", str(run), "-n", "60", "--batch-size", "40", "--seed", "2", "--out", str(tmp_path / "a")]
    given = ["--given", "owner=True", "age=15:30.5", "--given", "pet=cat|dog"]
    assert cli.main([*words, *given]) == 0
    said = capsys.readouterr().out
    assert "of all rows fulfil the conditions" in said
    assert "effective sample size" in said
    drawn = pandas.read_csv(tmp_path / "a" / "samples.csv")
    assert len(drawn) == 60
    assert drawn.owner.all()
    assert drawn.age.between(15, 30.5).all()
    assert drawn.pet.isin(["cat", "dog"]).all()
    frequency = (rows().owner & rows().age.between(15, 30.5) & rows().pet.isin(["cat", "dog"])).mean()
    # The same command again finds the samples; other conditions need another folder.
    assert cli.main([*words, *given, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["conditions"]["probability"] == pytest.approx(frequency, rel=0.2)
    assert 30 < facts["conditions"]["effective_sample_size"] <= 60
    assert cli.main([*words, "--given", "owner=True"]) == 2
    assert "given differ" in capsys.readouterr().err


def test_improbable_conditions_are_reported(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sample", str(run), "-n", "5", "--out", str(tmp_path / "a"), "--given", "pet=fish", "legs=4"]
    assert cli.main(words) == 2
    assert "no row can fulfil all conditions at once" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_words_become_conditions() -> None:
    form = exact_model(rows().rename(columns={"age": "a=b"}))[0].form
    assert form is not None
    assert parse_given(["a=b=3:", "pet= dog", "owner=True"], form) == {
        "a=b": ("3", None),
        "pet": "dog",
        "owner": "True",
    }
    assert parse_given(["pet=", "legs=:4"], form) == {"pet": None, "legs": (None, "4")}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["age"], "--given must be COLUMN=VALUE, COLUMN=LOW:HIGH or COLUMN=A|B, got 'age': write one of the columns"),
        (["size=3"], "got 'size=3': write one of the columns owner, age, pet, legs"),
        (["pet=cat", "pet=dog"], "--given has two conditions on the column 'pet'"),
        (["pet=bird", "age=old"], "'bird' is not one of its categories: write cat, dog, fish; given 'age': 'old'"),
        (["age=30:20"], "its first end must be the smaller one"),
    ],
)
def test_bad_conditions(
    run: Path, tmp_path: Path, given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["sample", str(run), "--out", str(tmp_path / "a"), "--given", *given]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_only_tables_have_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sample", "toy", "--out", str(tmp_path / "a"), "--given", "a=1"]) == 2
    assert "--given needs a model of a table, and this is a model of" in capsys.readouterr().err


def test_contradicted_dependencies_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pandas.DataFrame({"pet": ["cat", "dog", "fish", "fish"] * 50, "legs": [4, 4, 0, 0] * 50})
    model, law = exact_model(frame)
    assert model.form is not None
    law[:3, :2] += 0.02
    about = {"dependencies": [each.config() for each in model.form.dependencies(model.encode(frame))]}
    broken = tl.denoise.ExactDenoiser(law / law.sum(), model.process)
    model = tl.Model(model.process, broken, shape=(2,), form=model.form, kind=model.kind, about=about)
    monkeypatch.setattr("tauleap.cli.run.sample.load_model", lambda folder, device: (model, model.form))
    words = ["sample", str(tmp_path), "-n", "200", "--batch-size", "64", "--out", str(tmp_path / "a")]
    assert cli.main([*words, "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)["violations"]
    drawn = pandas.read_csv(tmp_path / "a" / "samples.csv")
    wrong = int((drawn.legs != drawn.pet.map({"cat": 4, "dog": 4, "fish": 0})).sum())
    assert wrong > 0
    assert counted == {"pet -> legs": wrong}
    assert cli.main([*words[:-1], str(tmp_path / "b")]) == 0
    expected = f"dependencies between columns: 1, contradicted in some of 200 rows: pet -> legs in {wrong}"
    assert expected in capsys.readouterr().out
