"""Tables of all column types from the file to the samples: train, sample, complete and evaluate."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tauleap import cli
from tauleap.data import open_data
from tauleap.data.table.format import TableFormat

ROWS = 120
NAMES = ["no", "size", "count", "day", "sold", "town", "unit", "note"]


def cells(number: int, draw: np.random.Generator) -> list[str]:
    size = "?" if number % 11 == 0 else f"{draw.normal(100, 30):.2f}".replace(".", ",")
    town = ("Köln", "Ulm", "")[number % 3]
    note = f"some words of free text about order {number}"
    count = "-" if number % 13 == 0 else str(draw.integers(0, 400))
    return [str(number), size, count, f"{1 + number % 28:02d}.03.2024", ("yes", "no")[number % 2], town, "kg", note]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A Latin-1 file with semicolons and decimal commas, and a run that was trained on it."""
    folder, draw = tmp_path_factory.mktemp("mixed"), np.random.default_rng(0)
    lines = [";".join(row) for row in (NAMES, *(cells(number, draw) for number in range(1, ROWS + 1)))]
    (folder / "orders.csv").write_bytes(("\r\n".join(lines) + "\r\n").encode("latin-1"))
    assert cli.main(["train", str(folder / "orders.csv"), "--steps", "3", "--out", str(folder / "run")]) == 0
    return folder / "orders.csv", folder / "run"


def ran(words: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert cli.main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def refused(words: list[object], capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert cli.main([str(word) for word in words]) == 2
    return capsys.readouterr().err.splitlines()


def table(path: Path) -> list[list[str]]:
    return [line.split(";") for line in path.read_bytes().decode("cp1252").split("\r\n")[:-1]]


def test_samples_have_the_names_types_and_formats_of_the_file(
    mixed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = mixed
    for name in ("a", "b"):
        ran(["sample", run, "-n", 30, "--steps", 3, "--seed", 5, "--out", tmp_path / name], capsys)
    rows = table(tmp_path / "a" / "samples.csv")
    assert rows[0] == NAMES
    assert [row[0] for row in rows[1:]] == [str(number) for number in range(1, 31)]  # IDs are a running number
    for _, size, count, day, sold, town, unit, note in rows[1:]:
        whole, _, decimals = size.partition(",")
        assert whole.isdigit()
        assert len(decimals) == 2
        assert 0 <= int(count) < 400
        assert pandas.to_datetime(day, format="%d.%m.%Y").month == 3
        assert sold in ("yes", "no")
        assert town in ("Köln", "Ulm")
        assert (unit, note) == ("kg", "")  # a constant; free text is left out
    assert (tmp_path / "a" / "samples.csv").read_bytes() == (tmp_path / "b" / "samples.csv").read_bytes()


def test_types_are_printed_with_the_reason(mixed: tuple[Path, Path]) -> None:
    loaded = open_data(mixed[0])
    types = {line.split()[0]: line.split()[1] for line in loaded.report[2:10]}
    assert types == {
        **{"no": "id", "size": "number", "count": "number", "day": "date"},
        **{"sold": "boolean", "town": "category", "unit": "constant", "note": "text"},
    }
    assert "change a type: --type no=category; in Python types={'no': 'category'}" in loaded.report
    model = tl.load(mixed[1])
    printed = model.about["data"][1:10]
    assert [line.split()[:2] for line in printed] == [line.split()[:2] for line in loaded.report[1:10]]
    # The bins follow from the training rows, and the table of types has the number of them.
    assert isinstance(model.form, TableFormat)
    states = [column.num_states for column in model.form.encoder.columns if column.modelled]
    assert [int(line.split()[2]) for line in printed[1:] if line.split()[2] != "-"] == states
    assert "decimal numbers, 109 distinct; '?' is missing" in printed[2]


def test_samples_of_training_have_the_bins_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bins of all rows and those of the training rows differ; the samples of ``tauleap train`` have the latter."""
    draw = np.random.default_rng(0)
    lines = [f"{draw.normal(100, 30):.3f},{'uv'[i % 2]}" for i in range(300)]
    (tmp_path / "t.csv").write_text("size,key\n" + "\n".join(lines) + "\n")
    states = []
    sample = tl.Model.sample

    def remember(self: tl.Model, *args: int, **options: object) -> object:
        states.append(sample(self, *args, **options))  # pyright: ignore[reportArgumentType]
        return states[-1]

    monkeypatch.setattr(tl.Model, "sample", remember)
    ran(["train", tmp_path / "t.csv", "--steps", 2, "--out", tmp_path / "run"], capsys)
    model, loaded = tl.load(tmp_path / "run"), open_data(tmp_path / "t.csv")
    assert isinstance(model.form, TableFormat)
    assert isinstance(loaded.form, TableFormat)
    assert model.form.encoder != loaded.form.encoder
    written = tmp_path / "run" / "samples" / "samples.csv"
    assert torch.equal(model.form.read(written).x.long(), states[-1])
    assert not torch.equal(loaded.form.read(written).x.long(), states[-1])


def test_given_cells_are_not_changed(
    mixed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = mixed
    ran(["complete", run, data, "--steps", 3, "--out", tmp_path / "c"], capsys)
    filled = 0
    for old, new in zip(table(data), table(tmp_path / "c" / "completed.csv"), strict=True):
        for before, after in zip(old, new, strict=True):
            assert after not in ("", "?", "-")
            filled += before != after
            assert before == after or before in ("", "?", "-")
    assert filled == 10 + 9 + 40
    # Columns in another order, more columns, another number format, and a value that the model does not know.
    (tmp_path / "d.csv").write_text(
        "extra,town,size,count,day,sold\nx,Ulm,1.50,,01.03.2024,yes\ny,Bonn,,7,,yes\n", encoding="utf-8"
    )
    said = ran(["complete", run, tmp_path / "d.csv", "--steps", 3, "--out", tmp_path / "d"], capsys)
    assert "line 3, column 'town': 'Bonn' is not a category of the model" in said
    assert "write one of 'Köln', 'Ulm', or leave the cell empty" in said
    assert "3 values of 2 rows sampled" in said  # Bonn stays
    (tmp_path / "e.csv").write_text("town,size,count,day,sold\nBonn,1.50,3,01.03.2024,yes\n")
    assert (
        "has no missing values to fill in: leave cells empty, or name"
        in refused(["complete", run, tmp_path / "e.csv", "--out", tmp_path / "e"], capsys)[-1]
    )
    head, first, second = (tmp_path / "d" / "completed.csv").read_text().splitlines()
    assert head == "extra,town,size,count,day,sold"
    assert first.startswith("x,Ulm,1.50,")
    assert first.endswith(",01.03.2024,yes")
    assert second.startswith("y,Bonn,")
    assert "." in second.split(",")[2]
    assert second.split(",")[3] == "7"


def test_bits_per_cell_and_per_row(mixed: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    data, run = mixed
    words = ["evaluate", run, data, "--samples", 4, "--device", "cpu"]
    facts = json.loads(ran([*words, "--json"], capsys))
    model = tl.load(run)
    loaded = model.form.read(data) if model.form is not None else None
    assert loaded is not None
    density = model.form.log_density(loaded) if model.form is not None else None
    assert density is not None
    cells_per_row = loaded.known().sum(1).double()
    # Every row has nearly as many known cells, so the two measures differ by the density within bins.
    inside = float(-density.sum(1).mean()) / np.log(2)
    assert inside > 0
    assert facts["bits_per_row"] == pytest.approx(
        facts["bits_per_dim"] * float(cells_per_row.mean()) + inside, rel=0.05
    )
    bits = model.bits_per_row(loaded, samples=4, seed=0)
    assert bits.value == pytest.approx(facts["bits_per_row"])
    assert model.bits_per_dim(loaded, samples=4, seed=0).value == pytest.approx(facts["bits_per_dim"])
    assert "bits per row of original values" in ran(words, capsys)
    assert model.about["bits_per_row"]["value"] > 0


def test_a_file_without_a_header_or_an_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(1)
    lines = [f"{draw.normal():.1f},{draw.choice(['Iris-a', 'Iris-b'])}" for _ in range(60)]
    (tmp_path / "iris").write_text("\n".join(lines) + "\n")
    out = tmp_path / "run"
    said = ran(["train", tmp_path / "iris", "--no-header", "--steps", 2, "--out", out], capsys)
    assert "column_2  category" in said
    samples = (out / "samples" / "samples.csv").read_text().splitlines()
    assert len(samples) == 64
    assert all(line.split(",")[1] in ("Iris-a", "Iris-b") for line in samples)
    shutil.copy(tmp_path / "iris", tmp_path / "more.data")
    facts = json.loads(ran(["evaluate", out, tmp_path / "more.data", "--samples", 2, "--json"], capsys))
    assert facts["rows"] == 60
    with_header = open_data(tmp_path / "iris", header=True)
    assert len(with_header.dataset) == 59


def test_options_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(2)
    lines = [f"{draw.integers(0, 999)},{10115 + draw.integers(0, 9)},{draw.choice(['a', 'none'])}" for _ in range(200)]
    (tmp_path / "t.csv").write_text("age,zip,x\n" + "\n".join(lines) + "\n")
    options = ["--type", "zip=category", "--bins", 5, "--missing", "none", "--model-missing", "--keep-rare"]
    facts = json.loads(
        ran(["train", tmp_path / "t.csv", *options, "--steps", 2, "--out", tmp_path / "run", "--json"], capsys)
    )
    assert any(line.startswith("zip") and "given by the user" in line for line in facts["data"])
    assert any(line.startswith("x ") and "missing is a state" in line for line in facts["data"])
    form = tl.load(tmp_path / "run").form
    assert form is not None
    assert form.num_states < 25
    samples = (tmp_path / "run" / "samples" / "samples.csv").read_text().splitlines()
    assert {line.split(",")[2] for line in samples[1:]} <= {"a", "none"}


def test_wrong_overrides_are_all_reported_before_anything_is_written(
    mixed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = mixed[0], tmp_path / "run"
    words = ["train", data, "--steps", 2, "--out", out]
    errors = refused([*words, "--type", "q=number", "size=float", "town=number", "sold=constant"], capsys)
    assert all(line.startswith("tauleap: error: ") for line in errors)
    for part in ("no column 'q'", "column 'size': the type must be one of", "column 'town'", "column 'sold'"):
        assert sum(part in line for line in errors) == 1
    for wrong, message in (
        (["--type", "size"], "--type takes COLUMN=TYPE"),
        (["--bins", 1], "bins must be 2..10,000"),
        (["--delimiter", "x"], "delimiter must be one of"),
        (["--encoding", "klingon"], "encoding must be one of"),
    ):
        assert any(message in line for line in refused([*words, *wrong], capsys))
    assert not out.exists()


def frame() -> pandas.DataFrame:
    draw = np.random.default_rng(3)
    number = np.arange(80)
    return pandas.DataFrame(
        {
            "id": number,
            "count": pandas.array(np.where(number % 9 == 0, None, draw.integers(0, 500, 80)), dtype="Int64"),
            "size": draw.normal(size=80).round(3),
            "share": pandas.array(draw.random(80).round(2), dtype="Float64"),
            "kind": pandas.Categorical(draw.choice(["low", "mid", "high"], 80), ["low", "mid", "high"], ordered=True),
            "day": pandas.Timestamp("2024-01-01") + pandas.to_timedelta(draw.integers(0, 300, 80), unit="D"),
            "flag": pandas.array(np.where(number % 7 == 0, None, number % 2 == 0), dtype="boolean"),
            "town": pandas.array(draw.choice(["Ulm", "Bonn"], 80), dtype="string"),
        },
        index=[f"r{i}" for i in number],
    )


def test_a_frame_keeps_its_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = frame()
    model = tl.fit(rows, steps=2, types={"town": "category"}, bins=20, device="cpu")
    said = capsys.readouterr().out
    assert "town    category       2  given by the user" in said
    model.save(tmp_path / "m")
    model = tl.load(tmp_path / "m")
    made = model.sample(40, steps=3, seed=0)
    assert made.dtypes.to_dict() == rows.dtypes.to_dict()
    assert made.equals(model.sample(40, steps=3, seed=0))
    assert not made.equals(model.sample(40, steps=3, seed=1))
    filled = model.complete(rows, steps=3, seed=0)
    assert filled.dtypes.to_dict() == rows.dtypes.to_dict()
    assert list(filled.index) == list(rows.index)
    assert not filled.isna().any().any()
    assert filled.where(rows.notna()).equals(rows.where(rows.notna()))
    drawn = model.complete(rows, ["kind", "town"], steps=3, seed=0)
    assert drawn["kind"].equals(rows["kind"])
    assert drawn["id"].equals(rows["id"])
    assert not drawn["size"].equals(rows["size"])
    assert model.bits_per_row(rows, samples=2, seed=0).value > model.bits_per_dim(rows, samples=2, seed=0).value
    # The same model reads files.
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet", index=False)
    for name in ("rows.csv", "rows.parquet"):
        same = model.bits_per_row(tmp_path / name, samples=2, seed=0).value
        assert same == pytest.approx(model.bits_per_row(rows, samples=2, seed=0).value, rel=1e-6)
        ran(["complete", tmp_path / "m", tmp_path / name, "--steps", 3, "--out", tmp_path / f"{name}-out"], capsys)
    back = pandas.read_parquet(tmp_path / "rows.parquet-out" / "completed.parquet")
    assert back.dtypes.astype(str).to_dict() == rows.dtypes.astype(str).to_dict()
    from_file = model.complete(tmp_path / "rows.csv", steps=3, seed=0)
    assert from_file["size"].tolist() == rows["size"].tolist()
    types = from_file.dtypes.astype(str).to_dict()
    assert {name: types[name] for name in types if name != "id"} == rows.drop(columns="id").dtypes.astype(str).to_dict()


def test_parquet_to_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame().to_parquet(tmp_path / "rows.parquet", index=False)
    ran(["train", tmp_path / "rows.parquet", "--steps", 2, "--out", tmp_path / "run"], capsys)
    made = pandas.read_parquet(tmp_path / "run" / "samples" / "samples.parquet")
    assert made.dtypes.astype(str).to_dict() == frame().dtypes.astype(str).to_dict()


def test_options_for_frames_are_refused_for_other_data() -> None:
    with pytest.raises(ValueError, match=r"bins is for a frame; for a file write open_data\(path, bins=...\)"):
        tl.fit(np.zeros((4, 2), dtype=int), bins=4)
    with pytest.raises(ValueError, match=r"types and keep_rare are for a frame; .* open_data\(path, types=..., keep_"):
        tl.fit(np.zeros((4, 2), dtype=int), types={"a": "number"}, keep_rare=True)
    with pytest.raises(ValueError, match="there is no column 'q' to give a type"):
        tl.fit(frame(), types={"q": "number"})


def test_a_repeated_option_adds_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,x,u\n2,y,v\n")
    words = [
        "train",
        "--drop",
        "q",
        "--steps",
        1,
        tmp_path / "t.csv",
        "--type",
        "a=date",
        "--type=b=number",
        "--drop=r",
    ]
    errors = refused([*words, "--out", tmp_path / "run"], capsys)
    assert len(errors) == 5
    for text in ("column 'a': has no date", "column 'b': has no number", "no column 'q'", "no column 'r'"):
        assert sum(text in line for line in errors) == 1, text
    twice = refused(["train", tmp_path / "t.csv", "--type", "a=id", "--steps", 1, "--type", "a=text"], capsys)
    assert twice == ["tauleap: error: --type takes COLUMN=TYPE, once per column, such as age=number; got a=text"]


def test_another_table_in_the_folder_of_a_run_is_refused_in_a_few_words(
    mixed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.csv").write_bytes(mixed[0].read_bytes().replace(b"Ulm", b"Bonn"))
    shutil.copytree(mixed[1], tmp_path / "run", symlinks=True)
    errors = refused(["train", tmp_path / "orders.csv", "--steps", 3, "--out", tmp_path / "run"], capsys)
    assert "holds a run of another recipe" in errors[-1]
    assert len(errors[-1]) < 3000


def test_cells_that_cannot_be_read_are_named_after_completing(
    mixed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["1;1,50;oops;01.03.2024;yes;Ulm;kg;x", "2;;7;02.03.2024;maybe;Ulm;kg;y"]
    (tmp_path / "gaps.csv").write_text("\n".join([";".join(NAMES), *rows, ""]))
    words = ["complete", mixed[1], tmp_path / "gaps.csv", "--steps", 2]
    shown = ran([*words, "--out", tmp_path / "a"], capsys)
    assert "1 values of 2 rows sampled; 2 unreadable cells stay as they are: " in shown
    facts = json.loads(ran([*words, "--out", tmp_path / "b", "--json"], capsys))
    assert (facts["filled"], facts["unreadable"]) == (1, 2)
    (tmp_path / "gaps.csv").write_text("\n".join([";".join(NAMES), rows[0], ""]))
    errors = refused([*words, "--out", tmp_path / "c"], capsys)
    assert "has no missing values to fill in" in errors[-1]
    assert errors[-1].endswith("; 1 unreadable cell stays as it is: empty what is to be filled in")
