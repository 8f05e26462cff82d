"""Rows of symbols of any length, by the commands that a user types."""

import json
import re
from pathlib import Path

import pytest

import tauleap as tl
from tauleap import cli
from tauleap.cli.commands.train import Train
from tauleap.cli.run.train import _longer_command

NAMES = ["Ann", "Bob", "Anna", "Bea", "Al", "Ben", "Nan", "Ella", "Lea", "Noel"] * 4
STEPS = ["--steps", "2", "--width", "16", "--depth", "1"]


def run_json(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert cli.main([*map(str, arguments)]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "start", "begins"),
    [
        ("names.txt", "\n".join(NAMES), "An\nB\n", ["An", "B"]),
        ("a.smi", "CCO x\nc1ccccc1\nCCl\n" * 12, "CC first\n", ["CC"]),
        ("a.fasta", ">one\nMKVLA\n>two\nMW\n" * 12, ">an open end\nMK\n", [">an open end", "MK"]),
        ("a.jsonl", '["to", "be"]\n["or"]\n' * 12, '["to"]\n', ['["to"']),
    ],
)
def test_every_kind_from_rows_to_numbers(
    name: str, content: str, start: str, begins: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = tmp_path / name, tmp_path / "run"
    data.write_text(content)
    facts = run_json(["train", data, "--out", run, *STEPS], capsys)
    assert facts["bits_per_symbol"]["value"] > 0
    assert "bits/symbol on held-out rows" in facts["interpretation"]
    sampled = run_json(["sample", run, "-n", 4, "--out", tmp_path / "s"], capsys)["files"]
    assert sampled == [str(tmp_path / "s" / f"samples{data.suffix}")]
    assert len(tl.load(run).sample(3, seed=0)) == 3
    (tmp_path / f"start{data.suffix}").write_text(start)
    made = run_json(["complete", run, tmp_path / f"start{data.suffix}", "--out", tmp_path / "c"], capsys)
    lines = (tmp_path / "c" / f"completed{data.suffix}").read_text().splitlines()
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=False))
    assert made["rows"] == start.count("\n") // (2 if ">" in start else 1)
    numbers = run_json(["evaluate", run, data, "--rows", 4, "--samples", 2], capsys)
    rows = tl.data.open_data(data).dataset
    assert rows.sequences is not None
    symbols = rows.sequences.symbols(rows.in_memory())[:4].double().mean()
    assert numbers["bits_per_row"] == pytest.approx(numbers["bits_per_symbol"] * float(symbols))
    assert ("bits_per_character" in numbers) is (data.suffix != ".jsonl")


def test_what_training_says_and_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run = tmp_path / "names.txt", tmp_path / "run"
    data.write_text("\n".join(NAMES))
    assert cli.main(["train", str(data), "--out", str(run), *STEPS]) == 0
    said = capsys.readouterr().out
    assert "names.txt: one row per line, because its lines are short and none is empty (--no-lines: one text)" in said
    assert "names.txt: 40 rows of 2 to 4 symbols, 3.2 on average, and their end; 11 different characters" in said
    assert "network: a transformer" in said
    assert "# continues each row of the file to its end, and fills gaps marked ?" in said
    assert cli.main(["info", str(run)]) == 0
    described = capsys.readouterr().out
    assert all(f"per {unit} on held-out rows" in described for unit in ("symbol", "row", "character"))
    assert cli.main(["score", str(run), str(data), "--out", str(tmp_path / "scored.csv")]) == 0
    assert re.search(r"row [0-9]+, score .*, position [0-9] = ([A-Za-z]|\(end\)) \(", capsys.readouterr().out)
    gaps = tmp_path / "gaps.txt"
    gaps.write_text("An\nAxn\n")
    assert "gaps.txt, line 2, column 2: 'x' is not in the training data" in refused(["complete", run, gaps], capsys)
    gaps.write_text("*nn\n")
    made = run_json(["complete", run, gaps, "--wildcard", "*", "--out", tmp_path / "c"], capsys)
    assert made["filled"] == 1
    assert Path(made["files"][0]).read_text()[1:] == "nn\n"
    gaps.write_text("Anna\n")
    assert "has no missing values to fill in: shorten the rows" in refused(["complete", run, gaps], capsys)
    error = refused(["train", data, "--tokens", "words", "--no-lines", "--out", tmp_path / "x"], capsys)
    assert "does not take the option tokens" in error
    out = ["--out", tmp_path / "one", "--no-lines", "--length", 8, *STEPS]
    assert run_json(["train", data, *out], capsys)["samples"][0].endswith("samples.txt")
    assert "--wildcard needs a model of rows of symbols" in refused(
        ["complete", tmp_path / "one", gaps, "--wildcard", "*"], capsys
    )


def test_lists_in_python() -> None:
    options = {"steps": 2, "width": 16, "depth": 1, "progress": False}
    names = tl.fit([*NAMES], **options)  # pyright: ignore[reportArgumentType]
    assert all(isinstance(name, str) for name in names.sample(3, seed=0))
    first, second = names.complete(["An", "?ob"], seed=0)
    assert first.startswith("An")
    assert second.endswith("ob")
    assert names.bits_per_row(["Ann", "Bob"]).value > 0
    tokens = tl.fit([[17, 4], [4], [99, 4, 4]] * 9, **options)  # pyright: ignore[reportArgumentType]
    assert set().union(*tokens.sample(5, seed=0)) <= {4, 17, 99}
    assert tokens.complete([[17]], seed=0)[0][0] == 17


def test_short_texts_get_a_transformer_and_flags_are_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows of 64 characters of 27 symbols are a text, not a table of 64 columns."""
    data = tmp_path / "text.txt"
    data.write_text("abcdefghijklmnopqrstuvwxyz " * 60)
    facts = run_json(["train", data, "--no-lines", "--out", tmp_path / "run", *STEPS], capsys)
    assert "a transformer" in facts["choice"][1]
    for lines, flag in ((True, "--lines"), (False, "--no-lines")):
        longer = _longer_command(Train(str(data), lines=lines), 9, tmp_path)
        assert longer == f"tauleap train {data} --minutes 9 --out {tmp_path}-9-minutes {flag}"
    short = tl.fit(["abc", "bca"] * 20, steps=1, width=16, depth=1, progress=False)
    assert isinstance(short.denoiser, tl.denoise.NetworkDenoiser)
    assert isinstance(short.denoiser.network, tl.network.SequenceTransformer)
