"""A column of texts in a table, with class labels."""

import json
from pathlib import Path

import pandas
import pytest
import torch

import tauleap as tl
from tauleap import cli
from tauleap.data import format_from_config, open_data
from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.sequences.labels import LabelColumn

ROWS = [f"{'CO' if n % 2 else 'NCC'},{'yes' if n % 2 else 'no'},{n / 7:.2f}" for n in range(40)]


def table(folder: Path, rows: list[str] = ROWS) -> Path:
    path = folder / "molecules.csv"
    path.write_text("smiles,active,logp\n" + "\n".join(rows) + "\n")
    return path


def test_labels_of_categories_and_numbers(tmp_path: Path) -> None:
    loaded = open_data(table(tmp_path), text="smiles", label=["active", "logp"], bins=2)
    form = loaded.form
    assert isinstance(form, SequenceFormat)
    assert form.tokens.kind == "smiles"
    assert form.labels is not None
    assert form.labels.names == ("active=no, logp=:2.86", "active=no, logp=2.86:", "active=yes, logp=:2.86", "active=yes, logp=2.86:")  # fmt: skip # noqa: E501
    assert loaded.dataset.condition is not None
    assert loaded.dataset.condition[:3].tolist() == [0, 2, 0]
    assert format_from_config(json.loads(json.dumps(form.config()))) == form
    assert loaded.report[-1].startswith("4 class labels: active=no")
    assert form.labels.find("active=yes, logp=2.86:") == 3
    assert form.labels.find("logp = 1, active = yes") == 2
    assert form.labels.find("active=yes") is None
    assert form.labels.find("active=perhaps, logp=1") is None
    assert "; active=no, logp=2.86:; active=yes" in loaded.report[-1]
    data = form.read(table(tmp_path, ["CO,perhaps,1", "CO,yes,", "N,no,9"]))
    assert data.condition is not None
    assert data.condition.tolist() == [4, 4, 1]
    (path,) = form.write(data.in_memory(), tmp_path, stem="s")
    assert path.read_text() == "smiles\nCO\nCO\nN\n"


def test_bins_of_uneven_numbers() -> None:
    """Numbers that differ late, and a column with one frequent number, have several bins."""
    column = LabelColumn.fit("id", [str(1_000_000 + n / 100) for n in range(50)], 5)
    assert [column.encode(f"{1_000_000 + n / 100}") for n in range(0, 50, 10)] == [0, 1, 2, 3, 4]
    assert column.describe(1) == "id=1000000.1:1000000.2"
    counts = LabelColumn.fit("n", ["0"] * 900 + [str(n) for n in range(1, 20)], 5)
    assert (counts.encode("0"), counts.encode("1"), counts.encode("19")) == (0, 1, 1)


def test_completed_tables_keep_their_other_columns(tmp_path: Path) -> None:
    form = open_data(table(tmp_path), text="smiles").form
    assert isinstance(form, SequenceFormat)
    path = tmp_path / "start.csv"
    path.write_text('logp,smiles,active\n"1,5",C,no\n2,,yes\n')
    data, _ = form.read_incomplete(path)
    assert data.known().tolist() == [[True, False, False, True], [False, False, False, True]]
    (written,) = form.write_completed(data.in_memory(), data.known(), data, tmp_path)
    assert written.read_text() == 'smiles,active,logp\nC,no,"1,5"\n,yes,2\n'


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"text": "smile"}, ROWS, "has no column 'smile': write one of smiles, active, logp"),
        ({"text": "smiles", "label": "x"}, ROWS, "has no column 'x'"),
        ({"text": "smiles", "label": "smiles"}, ROWS, "cannot be both --text and --label"),
        ({"label": "active"}, ROWS, "--label needs --text"),
        ({"text": "smiles", "bins": 3}, ROWS, "--bins needs --label: write --label COLUMN"),
        ({"text": "smiles"}, [*ROWS, ",no,1"], "line 42: the column 'smiles' is empty"),
        (
            {"text": "smiles", "tokens": "bases"},
            ROWS,
            "line 2, column 'smiles', character 2: 'O' is not one of the bases",
        ),
        ({"text": "smiles", "label": "active"}, ["CO,yes,1"] * 9, "'active' has 1 different values: labels are 2 to"),
    ],
)
def test_wrong_columns_are_explained(options: dict, rows: list[str], message: str, tmp_path: Path) -> None:
    rows = [row.replace("NCC", "COC") for row in rows]
    with pytest.raises(ValueError, match=message):
        open_data(table(tmp_path, rows), **options)


def test_a_model_with_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run = table(tmp_path), tmp_path / "run"
    words = ["train", data, "--text", "smiles", "--label", "active", "--out", run, "--steps", 300, "--width", 16]
    assert cli.main([*map(str, words), "--depth", "1"]) == 0
    assert "2 class labels: active=no; active=yes" in capsys.readouterr().out
    model = tl.load(run)
    assert model.num_labels == 2
    share = [
        sum(text == "CO" for text in model.sample(60, condition=torch.full((60,), label), guidance=2.0, seed=label))
        for label in (0, 1)
    ]
    assert share[1] > share[0] + 20
    for command in (
        ["sample", run, "-n", 6, "--label", "active=yes", "--guidance", 1.5, "--out", tmp_path / "s"],
        ["sample", run, "-n", 2, "--label", "active=yes; active=no", "--out", tmp_path / "several"],
        ["evaluate", run, data, "--rows", 4, "--samples", 2],
        ["complete", run, data, "--observed", "0", "--out", tmp_path / "c"],
        ["score", run, data, "--out", tmp_path / "scored.csv"],
    ):
        assert cli.main(list(map(str, command))) == 0
    assert (tmp_path / "s" / "samples.csv").read_text().count("\n") == 7
    scored = pandas.read_csv(tmp_path / "scored.csv")
    texts, labels = [row.split(",")[0] for row in ROWS], torch.arange(len(ROWS)) % 2
    given, other = (model.surprise(texts, condition=each).row_bits.numpy() for each in (labels, 1 - labels))
    assert scored["text"].tolist() == texts
    assert scored["row_bits"].to_numpy() == pytest.approx(given, abs=1e-3)
    assert (other - given).mean() > 0.1
    capsys.readouterr()
    assert cli.main(["sample", str(run), "-n", "2", "--label", "active=no way", "--out", str(tmp_path / "t")]) == 2
    assert "the labels are active=no; active=yes" in capsys.readouterr().err
