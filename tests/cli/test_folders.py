"""Commands do not touch files that they did not write, and a full disk is explained by each of them."""

import json
import os
import resource
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import tauleap as tl
from tauleap import cli
from tauleap.cli import blocks
from tauleap.cli.run import demo as toy_demo

SCRIPT = Path(sysconfig.get_path("scripts")) / "tauleap"
Runs = Callable[[str], tuple[Path, Path]]


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def refused(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert cli.main([*map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def ran(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def users(tmp_path: Path, run_of: Runs) -> Path:
    """A folder of a user's: a table, other tables, pictures, and files that end like temporary ones."""
    folder = tmp_path / "p"
    (folder / "samples").mkdir(parents=True)
    shutil.copy(run_of("table")[1], folder / "data.csv")
    (folder / "other.csv").write_text("step,b\n1,2\n900,3\n")
    (folder / ".notes.tmp").write_text("mine")
    (folder / "figure.png").write_text("mine")
    (folder / "music-000000.mid").write_text("mine")
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 256, (4, 4)).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(folder / "samples" / f"{number}.png")
    return folder


@pytest.mark.parametrize("command", ["train data.csv", "train samples", "train toy", "demo", "demo-music"])
def test_a_folder_of_the_user_is_refused(
    command: str, users: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(users)
    before = contents(users)
    steps = ["--steps", 3] if command.startswith("train") else []
    for out in (".", users, "../p"):
        error = refused([*command.split(), "--out", out, *steps], capsys)
        assert "write the name of a new folder" in error
        assert contents(users) == before


def test_data_inside_the_folder_of_a_run_is_refused(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There its name may be one of ours."""
    run = shutil.copytree(run_of("table")[0], tmp_path / "run", symlinks=True)
    shutil.copy(run_of("table")[1], run / "train.csv")
    before = contents(run)
    assert "contains the data" in refused(["train", run / "train.csv", "--out", run, "--steps", 3], capsys)
    assert contents(run) == before


def test_a_run_inside_the_folder_of_the_data_is_refused(
    users: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command would read the samples of the run as data."""
    before = contents(users)
    monkeypatch.chdir(users)
    for data, out in [("samples", "samples/run"), ("samples", users / "samples" / "a" / "b"), ("samples", "samples")]:
        error = refused(["train", data, "--out", out, "--steps", 3], capsys)
        assert "write the name of a new folder" in error
        assert f"{out} is inside the data {data}" in error or "contains the data" in error
    monkeypatch.chdir(users / "samples")
    assert "runs/samples is inside the data .:" in refused(["train", ".", "--steps", 3], capsys)
    assert contents(users) == before


@pytest.mark.parametrize("kind", ["link", "FIFO", "folder"])
def test_the_lock_of_samples_is_a_plain_file(
    kind: str, run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, mine = tmp_path / "out", tmp_path / "mine"
    out.mkdir()
    if kind == "link":
        (out / ".lock").symlink_to(mine)
    elif kind == "FIFO":
        os.mkfifo(out / ".lock")
    else:
        (out / ".lock").mkdir()
    error = refused(["sample", run_of("table")[0], "-n", 3, "--steps", 2, "--out", out], capsys)
    assert f"{out / '.lock'} is a {kind}, it must be a plain file: move it away and run the same command again" in error
    assert not mine.exists()


def test_a_link_to_nothing_is_no_folder_for_samples(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.symlink_to("nowhere")
    error = refused(["sample", run_of("table")[0], "-n", 3, "--steps", 2, "--out", out], capsys)
    assert f"{out} is a link to nothing: write the name of a folder for the samples" in error


def test_a_damaged_request_is_said(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["sample", run_of("table")[0], "-n", 6, "--batch-size", 3, "--steps", 2, "--out", out]
    ran([*arguments, "--shard", "1/2"], capsys)
    request = out / "request.json"
    request.write_bytes(request.read_bytes()[:40])
    before = contents(out)
    error = refused(arguments, capsys)
    assert f"{request} is damaged, so sampling cannot be resumed: write the name of a new folder" in error
    assert contents(out) == before
    shutil.rmtree(out / ".parts")
    (out / ".lock").unlink()
    assert "is not empty and does not hold samples of tauleap: write the name of a new folder" in refused(
        arguments, capsys
    )


def test_samples_of_the_user_beside_a_model_stay(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the run are replaced."""
    _, data = run_of("table")
    out = tmp_path / "run"
    train = ["train", data, "--out", out, "--steps"]
    (first,) = ran([*train, 2], capsys)["samples"]
    old = Path(first).stat().st_mtime_ns
    (second,) = ran([*train, 3], capsys)["samples"]
    assert first == second == str(out / "samples" / "samples.csv")
    assert Path(second).stat().st_mtime_ns > old
    (out / "samples" / "notes.txt").write_text("mine")
    before = contents(out / "samples")
    (third,) = ran([*train, 4], capsys)["samples"]
    assert third == str(out / "samples-2" / "samples.csv")
    (fourth,) = ran([*train, 5], capsys)["samples"]
    assert fourth == third
    assert contents(out / "samples") == before
    assert not [path for path in out.iterdir() if path.name.endswith(".tmp")]


def test_samples_drawn_into_a_run_stay(run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = run_of("table")
    out = shutil.copytree(run, tmp_path / "run", symlinks=True)
    shutil.rmtree(out / "samples")
    ran(["sample", out, "-n", 5, "--steps", 2, "--out", out / "samples"], capsys)
    before = contents(out / "samples")
    (file,) = ran(["train", data, "--out", out, "--steps", 4], capsys)["samples"]
    assert file == str(out / "samples-2" / "samples.csv")
    assert contents(out / "samples") == before


def test_a_copied_run_samples_goes_on_and_evaluates(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = run_of("table")
    ran(["sample", run, "-n", 5, "--steps", 2, "--out", tmp_path / "s"], capsys)
    for how in ("folder", "missing"):
        out = shutil.copytree(run, tmp_path / how, symlinks=how == "missing")
        if how == "missing":
            (out / "latest").unlink()
        (out / "step-x").write_text("")
        ran(["sample", out, "-n", 5, "--steps", 2, "--out", tmp_path / f"s-{how}"], capsys)
        assert contents(tmp_path / f"s-{how}") == contents(tmp_path / "s")
        assert ran(["info", out], capsys)["step"] == 3
        assert ran(["train", data, "--out", out, "--steps", 4], capsys)["step"] == 4
        assert (out / "latest").is_symlink()


def test_leftovers_of_sampling_are_removed_and_files_of_the_user_stay(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the process was killed after it had written the samples, and all that is left to do is to tidy up."""
    run, _ = run_of("table")
    command: list[object] = ["sample", run, "-n", 30, "--steps", 2, "--batch-size", 10, "--out"]
    ran([*command, tmp_path / "whole"], capsys)
    out = tmp_path / "s"
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "_remove_blocks", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli.main([*map(str, [*command, out])]) == 130
    (out / ".samples.csv.1.tmp").write_text("half")
    (out / ".request.json.2.tmp").write_text("half")
    (out / ".parts" / ".00000010.npy.3.tmp").write_text("half")
    mine = {".notes.tmp", ".notes.csv.4.tmp", "notes.txt", ".parts/notes.txt"}
    for name in mine:
        (out / name).write_text("mine")
    ran([*command, out], capsys)
    left = contents(out)
    assert {name: left.pop(name) for name in mine} == dict.fromkeys(mine, b"mine")
    assert left.pop(".parts") is None
    assert left == contents(tmp_path / "whole")


def test_completing_removes_what_a_killed_process_left_and_nothing_else(
    run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = run_of("table")
    (tmp_path / ".c.1.tmp" / "files").mkdir(parents=True)
    (tmp_path / ".c.1.tmp" / "tauleap-unfinished").write_text("")
    (tmp_path / ".c.1.tmp" / "files" / "completed.csv").write_text("half")
    (tmp_path / ".c.2.tmp").mkdir()
    (tmp_path / ".c.2.tmp" / "mine.txt").write_text("mine")
    (tmp_path / ".c.3.tmp").write_text("mine")
    ran(["complete", run, data, "--steps", 2, "--out", tmp_path / "c"], capsys)
    assert {path.name for path in tmp_path.iterdir()} == {"c", ".c.2.tmp", ".c.3.tmp"}
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["completed.csv"]


def test_saving_does_not_overwrite_a_model_of_another_library(run_of: Runs, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"], "format": 1}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="does not hold a model of tauleap: write the name of a new folder"):
        tl.load(run_of("table")[0]).save(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", ["train", "train toy", "sample", "complete", "demo", "demo-music"])
def test_a_full_disk_is_explained(
    command: str, run_of: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file may grow beyond 100 bytes, which a disk without space would do as well."""
    run, data = run_of("table")
    out = tmp_path / "out"
    arguments: dict[str, list[object]] = {
        "train": ["train", data, "--steps", 3],
        "train toy": ["train", "toy", "--steps", 3],
        "sample": ["sample", run, "-n", 300, "--steps", 2],
        "complete": ["complete", run, data, "--steps", 2],
        "demo": ["demo", "--quick"],
        "demo-music": ["demo-music", "--steps", 1],
    }
    monkeypatch.setattr(toy_demo, "QUICK", replace(toy_demo.QUICK, processes=0))  # they would hit the limit, too
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        code = cli.main([*map(str, arguments[command]), "--out", str(out)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    error = capsys.readouterr().err
    assert code == 1, error
    # The demo trains in a temporary folder.
    assert f"File too large, in {'/' if command == 'demo' else out}" in error
    assert error.endswith("free some space and run the same command again\n")
    assert not list(out.parent.glob(".*.tmp")) + list(out.glob("**/.*.tmp"))
    if command != "demo":
        return
    assert {path.name for path in out.iterdir()} == {"tauleap-demo.json"}


@pytest.mark.parametrize("command", ["evaluate", "info"])
def test_a_full_disk_behind_the_standard_output(command: str, run_of: Runs) -> None:
    run, data = run_of("table")
    arguments = [str(SCRIPT), command, str(run)] + ([str(data), "--samples", "1"] if command == "evaluate" else [])
    with open("/dev/full", "w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 1, done.stderr
    error = "tauleap: error: cannot write to the standard output: No space left on device: free some space and"
    assert done.stderr.splitlines()[-1].startswith(error)
    assert "Traceback" not in done.stderr
