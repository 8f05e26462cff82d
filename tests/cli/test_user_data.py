"""From a file to a model, samples, completions and numbers, by the commands that a user types."""

import csv
import json
import math
import os
import shlex
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tauleap as tl
from tauleap import cli
from tauleap._formats import check_supported
from tauleap._seeds import derive_seed
from tauleap.cli.model import load_model
from tauleap.cli.observed import observed_mask
from tauleap.cli.run import sample as sample_command
from tauleap.cli.samplers import SamplerName
from tauleap.storage.save import with_checksum

SCRIPT = Path(sysconfig.get_path("scripts")) / "tauleap"
Runs = Callable[[str], tuple[Path, Path]]
KINDS = ["table", "text", "array", "midi", "images"]


def run_json(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> dict:
    """Return the result of a command that succeeds: one JSON object, and nothing else on the standard output."""
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert cli.main([*map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("tauleap: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_from_data_to_numbers(
    kind: str, run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = run_of(kind)
    assert (run / "samples").is_dir()
    facts = run_json(["info", run], capsys)
    assert facts["kind"] == kind
    assert facts["step"] == 3
    assert facts["bits_per_dim"]["value"] > 0
    files = run_json(["sample", run, "-n", 5, "--steps", 3, "--out", tmp_path / "s"], capsys)["files"]
    assert files
    assert all(Path(file).is_file() for file in files)
    read = data if data.is_file() else sorted(data.iterdir())[0]
    made = run_json(["complete", run, read, "--observed", "0:2", "--steps", 3, "--out", tmp_path / "c"], capsys)
    assert made["filled"] > 0
    assert sorted(str(tmp_path / "c" / path.name) for path in (tmp_path / "c").iterdir()) == sorted(made["files"])
    numbers = run_json(["evaluate", run, read, "--rows", 4, "--samples", 2], capsys)
    assert 0 < numbers["bits_per_dim"] < 12
    assert numbers["rows"] <= 4


def test_what_training_says(tmp_path: Path, run_of: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    _, data = run_of("table")
    out = tmp_path / "a run"
    assert cli.main(["train", str(data), "--out", str(out), "--steps", "4", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    for line in ("one     category       2  texts, 2 distinct", "three   number         9  whole numbers, 9 distinct"):
        assert line in said
    assert "change a type: --type three=category" in said
    assert "bits per row of original values" in said
    assert "noise: " in said
    assert "network: " in said
    assert "independent sites: " in said
    assert f"samples: {out / 'samples' / 'samples.csv'}" in said
    assert f"next: tauleap sample '{out}' -n 1000" in said
    assert f"next: tauleap complete '{out}' {data}" in said
    table = rows(out / "samples" / "samples.csv")
    assert table[0] == ["one", "two", "three"]
    assert len(table) == 65
    assert {row[0] for row in table[1:]} <= {"x", "y"}
    assert {row[1] for row in table[1:]} <= {"p", "q", "r"}
    # The same command resumes, and prints the same JSON.
    facts = run_json(["train", data, "--out", out, "--steps", "5", "--seed", "3"], capsys)
    assert facts["step"] == 5
    assert facts["samples"] == [str(out / "samples" / "samples.csv")]


def test_training_says_whether_dependence_was_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    same, three = draw.integers(0, 3, 600), draw.integers(0, 3, (600, 3))
    cases = [
        ("dependent", [], [f"{'xyz'[i]},{'pqr'[i]}" for i in same], 150, True),
        # A table network begins with the marginals, and is better than they are after one step.
        ("too short", ["--network", "residual-mlp"], [f"{'xyz'[i]},{'pqr'[i]}" for i in same], 1, False),
        ("independent", [], [",".join("xyz"[i] for i in row) for row in three], 150, False),
        ("one column", [], ["xyz"[i] for i in same], 1, None),
    ]
    for name, options, lines, steps, better in cases:
        file, out = tmp_path / f"{name}.csv", tmp_path / f"run {name}"
        file.write_text("\n".join([",".join("abc"[: lines[0].count(",") + 1]), *lines]) + "\n")
        words: list[object] = ["train", file, "--out", out, "--steps", steps, *options, "--seed", 4]
        said = _out(words, capsys)
        facts = tl.load(out).about
        assert facts["better_than_independent"] is better, facts
        model, alone, gain = (
            facts[key]["value"] for key in ("bits_per_dim", "independent_bits_per_dim", "gain_over_independent")
        )
        assert gain == pytest.approx(alone - model)
        assert (gain > 2 * facts["gain_over_independent"]["stderr"]) is (better is True)
        assert facts["interpretation"] in said
        command = shlex.join(
            ["tauleap", "train", str(file), "--minutes", "3", "--out", f"{out}-3-minutes", *options, "--seed", "4"]
        )
        assert (f"next: {command}  # trains longer" in said) is (better is False)
        known = run_json(["info", out], capsys)
        assert known["gain_over_independent"] == facts["gain_over_independent"]
        shown = _out(["info", out], capsys)
        assert f"baseline: {alone:.4f} ± " in shown
        assert f"gain:     {gain:.4f} ± " in shown
        assert ("it has learned dependence" in shown) is (better is True)
        assert ("it has not learned dependence" in shown) is (better is False)
        if name == "too short":
            printed = run_json(words, capsys)
            assert printed["train_longer"] == command
            assert printed["interpretation"] == facts["interpretation"]
            assert printed["gain_over_independent"] == facts["gain_over_independent"]


def test_the_budget_is_kept(tmp_path: Path, run_of: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    _, data = run_of("table")
    start = time.monotonic()
    facts = run_json(["train", data, "--out", tmp_path / "run", "--minutes", 0.2], capsys)
    assert time.monotonic() - start < 12 + 3
    assert facts["step"] > 0
    assert Path(facts["samples"][0]).is_file()


def test_samples_are_decided_by_the_seed(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = run_of("table")
    made = {}
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        run_json(["sample", run, "-n", 50, "--steps", 3, "--seed", seed, "--out", tmp_path / name], capsys)
        made[name] = (tmp_path / name / "samples.csv").read_bytes()
    assert made["a"] == made["b"] != made["c"]


SAMPLERS = {
    "ancestral": "Ancestral(look_ahead=0.5)",
    "tau-leaping": "TauLeaping('last')",
    "trapezoidal": "Trapezoidal(theta=0.25)",
    "extrapolated": "Extrapolated()",
    "first-jump": "FirstJump()",
    "first-hitting": "FirstHitting()",
    "planned": "Planned('margin')",
    "next-reaction": "NextReaction(step=0.1)",
    "uniformization": "Uniformization()",
}
OPTIONS = {
    "ancestral": "look_ahead=0.5",
    "tau-leaping": "multiple_jumps=last",
    "trapezoidal": "theta=0.25",
    "planned": "order=margin",
    "next-reaction": "step=0.1",
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler(sampler: str, run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SAMPLERS) == set(get_args(SamplerName))
    run, data = run_of("table")
    option = ["--sampler-option", OPTIONS[sampler]] if sampler in OPTIONS else []
    how = ["--steps", 3, "--sampler", sampler, *option, "--out"]
    drawn = run_json(["sample", run, "-n", 5, *how, tmp_path / "s"], capsys)
    assert len(rows(Path(drawn["files"][0]))) == 6
    filled = run_json(["complete", run, data, *how, tmp_path / "c"], capsys)
    assert drawn["sampling"]["sampler"] == filled["sampling"]["sampler"] == SAMPLERS[sampler]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["--sampler-option", "look_ahead=0.5"], "--sampler-option needs --sampler"),
        (["--sampler", "first-jump", "--sampler-option", "a=1"], "--sampler first-jump has no option, got 'a=1'"),
        (["--sampler", "ancestral", "--sampler-option", "theta=1"], "must be look_ahead=VALUE for --sampler ancestral"),
        (["--sampler", "trapezoidal", "--sampler-option", "theta=x"], "theta must be a number, got 'x'"),
        (["--sampler", "trapezoidal", "--sampler-option", "theta=2"], "theta must lie strictly between 0 and 1"),
    ],
)
@pytest.mark.parametrize("command", ["sample", "complete"])
def test_options_of_samplers_that_do_not_fit(
    command: str, given: list[str], complaint: str, run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = run_of("table")
    words = [command, str(run), *([str(data)] if command == "complete" else []), *given, "--out", str(tmp_path / "s")]
    assert cli.main(words) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_the_selected_sampler_is_reported_and_recorded(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of the tests has few columns and absorbing noise."""
    run, data = run_of("table")
    model = tl.load(run)
    sites = math.prod(model.shape or ())
    exact, leaps = ["sample", run, "-n", 5, "--out", tmp_path / "a"], ["--steps", 2, "--out", tmp_path / "b"]
    found = run_json(exact, capsys)
    assert found["sampling"] == model.sampling_plan().as_json()
    assert (found["sampling"]["sampler"], found["sampling"]["evaluations"]) == ("FirstHitting()", sites)
    request = json.loads((tmp_path / "a" / "request.json").read_text())["request"]
    assert {name: request[name] for name in ("sampler", "steps", "grid", "end", "final")} == {
        "sampler": "first-hitting", "steps": 100, "grid": "exact", "end": 0.0, "final": "none"
    }  # fmt: skip
    assert run_json(exact, capsys)["files"] == found["files"]
    assert cli.main([str(word) for word in [*exact, "--sampler", "ancestral"]]) == 2
    assert "(sampler, grid, end, final differ)" in capsys.readouterr().err
    assert run_json(["sample", run, "-n", 5, *leaps], capsys)["sampling"]["sampler"] == "Ancestral()"
    corrected = run_json(["sample", run, "-n", 5, "--correctors", 1, "--out", tmp_path / "d"], capsys)["sampling"]
    assert corrected["sampler"] == "WithCorrector(Ancestral(), steps=1, scale=1, start=1)"
    assert corrected["reason"] == "correctors need steps, and FirstHitting() has none"
    few = run_json(["sample", run, "-n", 5, "--correctors", 1, "--steps", 2, "--out", tmp_path / "e"], capsys)[
        "sampling"
    ]
    assert few["reason"] == model.sampling_plan(steps=2).reason
    assert run_json(["complete", run, data, "--out", tmp_path / "c"], capsys)["sampling"]["sampler"] == "FirstHitting()"


def test_correctors_of_an_exact_sampler_are_reported_with_the_steps_that_they_need(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = run_of("table")
    command = ["sample", run, "-n", 5, "--steps", 2, "--sampler", "first-hitting", "--batch-size", 5]
    found = run_json([*command, "--correctors", 1, "--out", tmp_path / "s"], capsys)
    sampler = tl.sampling.WithCorrector(tl.sampling.FirstHitting(), 1)
    plan = tl.load(run).sampling_plan(steps=2, sampler=sampler)
    assert found["sampling"] == plan.as_json()
    assert (found["sampling"]["steps"], found["sampling"]["end"], found["sampling"]["final"]) == (2, 1e-3, "sample")
    request = json.loads((tmp_path / "s" / "request.json").read_text())["request"]
    assert (request["sampler"], request["grid"], request["end"]) == ("first-hitting", plan.grid_name, 1e-3)


@pytest.mark.parametrize("steps", [None, 20, 2])
@pytest.mark.parametrize("name", ["toy", "table"])
def test_steps_end_and_final_step_are_those_of_python(
    name: str, steps: int | None, run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has absorbing noise, and more columns than 2; the toy has Gaussian noise."""
    run = Path("toy") if name == "toy" else run_of("table")[0]
    given = [] if steps is None else ["--steps", steps]
    options = {} if steps is None else {"steps": steps}
    model, form = load_model(run, "cpu")
    found = run_json(["sample", run, "-n", 7, *given, "--batch-size", 7, "--out", tmp_path / "s"], capsys)
    assert found["sampling"] == model.sampling_plan(**options).as_json()
    x = model.sample(7, **options, seed=derive_seed(0, "rows", 0), batch_size=7, states=True)
    assert form.read(Path(found["files"][0])).x.tolist() == x.tolist()
    sites = math.prod(model.shape or ())
    filled = run_json(
        ["complete", run, found["files"][0], "--observed", "0:1", *given, "--out", tmp_path / "c"], capsys
    )
    assert filled["sampling"] == model.sampling_plan(**options, sites=sites - 1).as_json()
    mask = torch.arange(sites) < 1
    y = model.complete(x, mask, **options, seed=derive_seed(0, "rows", 0), batch_size=7, states=True)
    assert form.read(Path(filled["files"][0])).x.tolist() == y.tolist()


def test_a_folder_without_the_grid_in_its_request_is_continued(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests of earlier versions were of uniform grids to 0.001."""
    run, _ = run_of("table")
    command = ["sample", run, "-n", 5, "--sampler", "ancestral", "--steps", 20, "--out", tmp_path / "s"]
    files = run_json(command, capsys)["files"]
    path = tmp_path / "s" / "request.json"
    found = json.loads(path.read_text())
    for name in ("sampler_option", "grid", "end", "final"):
        del found["request"][name]
    path.write_text(json.dumps(found))
    assert run_json(command, capsys)["files"] == files


def test_sampling_goes_on_where_it_was_stopped(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = run_of("table")
    arguments = ["sample", run, "-n", 40, "--steps", 3, "--batch-size", 10, "--out"]
    run_json([*arguments, tmp_path / "whole"], capsys)
    original, drawn = tl.Model.sample, []

    def sample(self: tl.Model, n: int, **options: object) -> object:
        if len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.append(n)
        return original(self, n, **options)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patch:
        patch.setattr(tl.Model, "sample", sample)
        assert cli.main([*map(str, arguments), str(tmp_path / "cut")]) == 130
    assert not list((tmp_path / "cut").glob("samples*"))  # nothing half-written
    drawn = [-1]
    with monkeypatch.context() as patch:
        patch.setattr(tl.Model, "sample", lambda self, n, **o: drawn.append(n) or original(self, n, **o))
        run_json([*arguments, tmp_path / "cut"], capsys)
    assert drawn == [-1, 10, 10]  # the other two parts were there
    assert (tmp_path / "cut" / "samples.csv").read_bytes() == (tmp_path / "whole" / "samples.csv").read_bytes()
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == [".lock", "request.json", "samples.csv"]
    assert "already complete" in _out([*arguments, tmp_path / "cut"], capsys)
    error = refused([*arguments, tmp_path / "cut", "--seed", 7], capsys)
    assert "holds samples of another request (seed differ)" in error


def _out(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_many_samples_are_many_files(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = run_of("table")
    monkeypatch.setattr(sample_command, "MAX_CELLS", 60)  # 20 rows per file
    arguments = ["sample", run, "-n", 45, "--steps", 3, "--batch-size", 10, "--out", tmp_path / "s"]
    files = run_json(arguments, capsys)["files"]
    assert [Path(file).name for file in files] == [f"samples-from-{n:08d}.csv" for n in (0, 20, 40)]
    assert [len(rows(Path(file))) - 1 for file in files] == [20, 20, 5]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_real_process_is_stopped_and_goes_on(number: signal.Signals, run_of: Runs, tmp_path: Path) -> None:
    run, _ = run_of("table")
    out = tmp_path / "s"
    command = [str(SCRIPT), "sample", str(run), "-n", "400", "--steps", "20", "--batch-size", "10", "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    until = time.monotonic() + 100
    while len(list(out.glob(".parts/*.npy"))) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), error
    if number != signal.SIGKILL:
        assert error == f"tauleap: stopped by {number.name}; to resume: {shlex.join(['tauleap', *command[1:]])}\n"
    assert "Traceback" not in error
    assert not list(out.glob("samples*"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(rows(out / "samples.csv")) == 401


def test_training_is_stopped_and_goes_on(run_of: Runs, tmp_path: Path) -> None:
    _, data = run_of("table")
    out = tmp_path / "run"
    command = [str(SCRIPT), "train", str(data), "--out", str(out), "--minutes", "20"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    until = time.monotonic() + 100
    # The log is written while it trains.
    while not (out / "train.csv").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said, error = process.communicate(timeout=100)
    assert process.returncode == 143, error
    assert "Traceback" not in error
    assert f"SIGTERM: {out}" in said
    assert f"to resume: tauleap train {data} --out {out} --minutes 20" in said
    assert tl.load(out).shape == (3,)
    assert not (out / "samples").exists()


def test_empty_cells_are_filled_and_the_others_kept(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = run_of("table")
    facts = run_json(["complete", run, data, "--steps", 3, "--variants", 3, "--out", tmp_path / "c"], capsys)
    assert (facts["rows"], facts["filled"], len(facts["files"])) == (60, 3, 3)
    given_rows = rows(data)
    for file in facts["files"]:
        for old, new in zip(given_rows, rows(Path(file)), strict=True):
            assert "" not in new
            assert all(a in ("", b) for a, b in zip(old, new, strict=True))
    assert "exists already" in refused(["complete", run, data, "--out", tmp_path / "c"], capsys)
    assert "no missing values to fill in" in refused(
        ["complete", run, facts["files"][0], "--out", tmp_path / "d"], capsys
    )
    assert not (tmp_path / "d").exists()


def test_a_text_goes_on(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = run_of("text")
    (tmp_path / "p.txt").write_text("the la")
    run_json(["complete", run, tmp_path / "p.txt", "--steps", 3, "--out", tmp_path / "c"], capsys)
    assert (tmp_path / "c" / "completed.txt").read_text().startswith("=== 0\nthe la")
    (tmp_path / "q.txt").write_text("the LA")
    assert "q.txt, line 1, column 5: 'L'" in refused(["complete", run, tmp_path / "q.txt"], capsys)


def test_given_columns_are_not_counted(run_of: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = run_of("table")
    model = tl.load(run)
    assert model.form is not None
    known = model.form.read(data)
    numbers = run_json(["evaluate", run, data, "--observed", "one,2", "--samples", 4, "--seed", 5], capsys)
    mask = torch.tensor([True, False, True])
    kept = torch.ones(60, dtype=torch.bool) if known.missing is None else ~known.missing[:, 1]
    assert numbers["rows"] == int(kept.sum())
    whole = run_json(["evaluate", run, data, "--samples", 4], capsys)
    assert whole["independent_bits_per_dim"] is not None
    assert numbers["independent_bits_per_dim"] is None
    exact = model.bits_per_dim(
        tl.data.Dataset(known.x[kept], known.num_states, missing=known.missing[kept], sizes=known.sizes),  # pyright: ignore[reportOptionalSubscript]
        mask,
        samples=4,
        seed=5,
    )
    assert numbers["bits_per_dim"] == pytest.approx(exact.value)


def test_a_recipe_has_samples_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = tl.noise.Uniform(4, tl.noise.Constant(1.0))
    network = tl.network.ResidualMLP(4, (2,), width=8, hidden=8, depth=1)
    tl.Model(process, tl.denoise.NetworkDenoiser(network), shape=(2,)).save(tmp_path / "m")
    (file,) = run_json(["sample", tmp_path / "m", "-n", 9, "--steps", 3, "--out", tmp_path / "s"], capsys)["files"]
    drawn = np.load(file, allow_pickle=False)
    assert drawn.shape == (9, 2)
    assert run_json(["info", tmp_path / "m"], capsys)["step"] is None


def test_bad_requests(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = run_of("table")
    out = tmp_path / "out"
    cases: list[tuple[list[object], str]] = [
        (
            ["train", tmp_path / "none"],
            "does not exist: write a file, a folder, or one of the recipes toy, toy-paper, digits",
        ),
        (["train", "tau"], "tau does not exist"),
        (
            ["train", data, "--out", out, "--length", 3],
            "does not take the option length; this kind of data takes: drop, types",
        ),
        (["train", data, "--out", out, "--lr", 0], "lr must be"),
        (
            ["train", data, "--out", out, "--data", data],
            "--data is only for the recipes mnist and cifar10, not for your own data",
        ),
        (["train", data, "--out", out, "--process", "gaussian"], "gaussian noise needs ordered values"),
        (["train", data, "--out", out, "--network", "unet"], "unet needs images"),
        (["train", data, "--out", out, "--batch-size", 3, "--accumulate", 2], "batch_size must be a multiple of 2"),
        (["train", data, "--out", out, "--precision", "7"], "precision must be 32-true, bf16-mixed"),
        (["train", data, "--out", out, "--strategy", "ddpp"], "strategy must be"),
        (["train", data, "--out", out, "--keep", 0], "keep must be"),
        (["train", data, "--out", out, "--checkpoint-every", 0], "checkpoint_every must be"),
        (["train", data, "--out", out, "--minutes", 0], "minutes must be"),
        (["train", data, "--out", out, "--minutes", "nan"], "minutes must be"),
        (["train", data, "--out", out, "--steps", 0], "--steps must be >= 1"),
        (["train", data, "--out", out, "--seed", -1], "--seed must be"),
        (["train", data, "--out", out, "--drop", "q"], "there is no column 'q'"),
        (["train", data, "--out", out, "--device", "tpu9"], "tpu9"),
        (["sample", tmp_path / "none"], "is not a folder of a run"),
        (["sample", tmp_path, "--out", out], "holds no model"),
        (["sample", run, "--out", out, "-n", 0], "--n must be >= 1"),
        (["sample", run, "--out", out, "-n", 10**12], "--n must be <= 100,000,000"),
        (["sample", run, "--out", out, "--steps", 0], "--steps must be >= 1"),
        (["sample", run, "--out", out, "--temperature", 0], "temperature must be"),
        (["sample", run, "--out", out, "--batch-size", 0], "--batch-size must be >= 1"),
        (["sample", run, "--out", data], "is a file: write the name of a folder"),
        (["sample", run, "--out", data.parent], "does not hold samples of tauleap"),
        (["complete", run, tmp_path / "none.csv", "--out", out], "none.csv does not exist: write the name of a file"),
        (
            ["complete", run, data, "--out", out, "--observed", "one,9"],
            "--observed must be positions or ranges below 3",
        ),
        (["complete", run, data, "--out", out, "--variants", 0], "--variants must be >= 1"),
        (["evaluate", run, data, "--samples", 0], "--samples must be >= 1"),
        (["evaluate", run, data, "--rows", 0], "--rows must be >= 1"),
        (["evaluate", run, data, "--observed", "0:3"], "has no values to measure"),
        (["info", data], "is not a folder of a run"),
    ]
    for arguments, expected in cases:
        assert expected in refused(arguments, capsys), arguments
        assert not out.exists(), arguments


@pytest.mark.parametrize("word", ["train", "sample", "complete", "evaluate", "info"])
def test_words_that_are_missing_or_too_many(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([word], [word, "a", "b", "c", "d"], [word, "a", "--nonsense", "1"]):
        if arguments[0] == "complete" and len(arguments) == 5:
            continue  # its file may be left out, so it counts its words itself: the next test
        with pytest.raises(SystemExit) as leaving:
            cli.main(arguments)
        assert leaving.value.code == 2
        assert capsys.readouterr().err


def test_files_too_many_to_complete_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected one file, got 3: b, c, d" in refused(["complete", "a", "b", "c", "d"], capsys)


@pytest.mark.parametrize("name", ["b.png", "b.JPEG", "b.mid", "b.midi", "b.csv", "b.npy", "t10k-images-idx3-ubyte"])
def test_one_picture_or_song_is_left_to_the_reader_of_the_model(name: str, tmp_path: Path) -> None:
    """A model cannot be trained on one of them, but it can complete it."""
    (tmp_path / name).write_bytes(b"x")
    check_supported(tmp_path / name, single=True)
    if Path(name).suffix.lower() in (".png", ".jpeg", ".mid", ".midi"):
        with pytest.raises(ValueError, match="is one example"):
            check_supported(tmp_path / name)


def test_a_full_disk_is_a_failure(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = run_of("table")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tauleap.data.table.format.TableFormat.write", full)
    assert cli.main(["sample", str(run), "-n", "3", "--steps", "2", "--out", str(tmp_path / "s")]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert not list((tmp_path / "s").glob("samples*"))


def test_a_damaged_run(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = run_of("table")
    tl.load(run).save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    for form in ({"kind": "pickle"}, {"kind": "table"}, 7):
        (tmp_path / "m" / "config.json").write_text(json.dumps(with_checksum(config | {"form": form})))
        assert "its description of the data format is invalid" in refused(["info", tmp_path / "m"], capsys)


def test_any_pattern() -> None:
    @settings(max_examples=500, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.text(alphabet="0123456789:,- ab", max_size=12), st.integers(1, 12))
    def check(text: str, sites: int) -> None:
        try:
            mask = observed_mask(text, (sites,), ["a", "b"][:sites])
        except ValueError:
            return
        expected = np.zeros(sites, dtype=bool)
        for piece in text.split(","):
            word = piece.strip()
            if word in ("a", "b"):
                expected["ab".index(word)] = True
            elif ":" in word:
                begin, end = (int(part) if part.strip() else None for part in word.split(":"))
                expected[begin:end] = True
            else:
                expected[int(word)] = True
        assert np.array_equal(mask.numpy(), expected)

    check()


def test_any_flags(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is typed: an exit code that means something, and a message where it is not 0."""
    run, data = run_of("table")
    numbers = st.sampled_from(["0", "1", "2", "-1", "3.5", "nan", "1e400", "9" * 30, "x", ""])
    names = st.sampled_from(["--n", "--steps", "--seed", "--temperature", "--batch-size", "--observed", "--variants"])
    words = st.lists(st.tuples(names, numbers), max_size=3)

    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(["sample", "complete", "evaluate", "info"]), words)
    def check(command: str, flags: list[tuple[str, str]]) -> None:
        flags = [(name, value) for name, value in flags if value != "9" * 30 or name in ("--seed", "--temperature")]
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        paths = {"sample": [run, "--out", out, "--steps", "2"], "info": [run], "evaluate": [run, data, "--rows", "2"]}
        typed = [
            command,
            *paths.get(command, [run, data, "--out", out, "--steps", "2"]),
            *(w for f in flags for w in f),
        ]
        try:
            code = cli.main([str(word) for word in typed])
        except SystemExit as leaving:
            code = leaving.code
        said = capsys.readouterr()
        assert code in (0, 2), said.err
        if code == 2:
            assert said.err
            assert not out.exists()

    check()
