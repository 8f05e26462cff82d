"""Tuned models on the command line: tune, info, and samples and completions within a tolerance."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap import cli


def ran(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert cli.main([*map(str, arguments)]) == 2
    return capsys.readouterr().err


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).integers(0, 3, (60, 4)))
    return tmp_path / "rows.npy"


def saved(folder: Path, process: tl.noise.ForwardProcess) -> Path:
    torch.manual_seed(0)
    network = tl.network.ResidualMLP(process.num_states, (4,), width=16, depth=1)
    tl.Model(process, tl.denoise.NetworkDenoiser(network), shape=(4,)).save(folder)
    return folder


@pytest.mark.parametrize(
    "process",
    [tl.noise.Uniform(3, tl.noise.Constant(1.0)), tl.noise.Absorbing(4, tl.noise.LogLinear())],
    ids=["uniform", "absorbing"],
)
def test_a_model_is_tuned_and_then_sampled_within_a_tolerance(
    tmp_path: Path, rows: Path, process: tl.noise.ForwardProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(tmp_path / "model", process)
    assert ran(["info", run], capsys)["tuning"] is None
    assert "tol needs a tuned model" in refused(["sample", run, "--tol", 0.1], capsys)
    found = ran(["tune", run, rows], capsys)["tuning"]
    tuning = tl.load(run).tuning
    assert tuning is not None
    assert (found["rows"], found["kind"]) == (60, tuning.kind)
    assert ran(["info", run], capsys)["tuning"] == found
    for steps, error in found["errors"].items():
        assert error == tuning.error(int(steps))
    assert found["steps"] == tuning.steps(found["tolerance"])
    assert cli.main(["info", str(run)]) == 0
    assert "tuned:    error " in capsys.readouterr().out

    ask = ["sample", run, "-n", 6, "--tol", found["tolerance"], "--out", tmp_path / "samples"]
    plan = ran(ask, capsys)["sampling"]
    assert (plan["grid"], plan["steps"], plan["error"]) == ("tuned", found["steps"], tuning.error(found["steps"]))
    files = {path.name: path.read_bytes() for path in (tmp_path / "samples").glob("*.npy")}
    ran([*ask[:-1], tmp_path / "again"], capsys)
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "again").glob("*.npy")}

    filled = ran(["complete", run, rows, "--observed", "0,1", "--tol", 0.1, "--out", tmp_path / "c"], capsys)
    assert filled["sampling"]["steps"] == tl.load(run).sampling_plan(tol=0.1, sites=2).evaluations


def test_samples_of_another_tuning_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = saved(tmp_path / "model", tl.noise.Uniform(3, tl.noise.Constant(1.0)))
    model = tl.load(run)
    ask = ["sample", run, "-n", 6, "--steps", 3, "--out", tmp_path / "samples"]
    for place in (0.3, 0.4):
        model.tuning = tl.sampling.TimeTuning(64, 0.1, (0.0, place, 1.0), ((0.2, 0.5), (0.1,)))
        model.save(run)
        if place == 0.3:
            ran(ask, capsys)
    assert "tuning" in refused(ask, capsys)


def test_a_run_keeps_its_tuning_beside_the_checkpoint(
    tmp_path: Path, rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    ran(["train", rows, "--steps", 2, "--out", run], capsys)
    report = tl.load(run).about
    checkpoint = next(run.glob("step-0*2"))
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    found = ran(["tune", run, rows], capsys)["tuning"]
    assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before
    about = tl.load(run).about
    assert about.pop("tuning")["rows"] == found["rows"]
    assert about == {name: value for name, value in report.items() if name != "tuning"}
    assert "is a checkpoint, which is never changed" in refused(["tune", checkpoint, rows], capsys)


def test_a_copy_of_a_shipped_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "tau.npy", tl.data.tau_points(40, generator=torch.Generator().manual_seed(0)).numpy())
    ask = ["tune", "toy", tmp_path / "tau.npy", "--rows", 8]
    assert "is part of the package and not changed: write --out FOLDER" in refused(ask, capsys)
    found = ran([*ask, "--out", tmp_path / "toy"], capsys)
    tuning = tl.load(tmp_path / "toy").tuning
    assert tuning is not None
    assert tuning.rows == found["tuning"]["rows"] == 8
    assert tl.load("toy").tuning is None


def test_planned_has_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = saved(tmp_path / "model", tl.noise.Absorbing(4, tl.noise.LogLinear()))
    ask = ["sample", run, "-n", 3, "--steps", 2, "--sampler", "planned", "--out", tmp_path / "s"]
    assert ran([*ask, "--sampler-option", "order=margin"], capsys)["sampling"]["sampler"] == "Planned('margin')"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sample", "toy", "--tol", "0"], "--tol must be a finite number > 0, got 0"),
        (["sample", "toy", "--tol", "nan"], "--tol must be a finite number > 0, got nan"),
        (["sample", "toy", "--tol", "0.1", "--steps", "5"], "so it excludes --steps: write only one of them"),
        (["complete", "toy", "x.npy", "--tol", "0.1", "--mode", "best"], "--tol needs --mode draw"),
        (["tune", "toy", "x.npy", "--rows", "0"], "--rows must be >= 1"),
        (["tune", "toy", "x.npy", "--seconds", "0"], "--seconds must be a finite number > 0"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(list(words), capsys)
