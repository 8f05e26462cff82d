"""A full disk: a clear message, and the last good checkpoint stays."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tauleap as tl


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    """A file system of 400 kB, or None where we may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True)
    yield disk if mounted.returncode == 0 else None
    if mounted.returncode == 0:
        subprocess.run(["umount", disk], check=True)


def assert_left_in_order(out: Path, log: Path, step: int) -> None:
    printed = log.read_text()
    assert "free some space and run the same command again" in printed
    assert f"the last good checkpoint is {out / f'step-{step:08d}'}" in printed
    assert not list(out.glob(".*.tmp"))
    assert (out / "latest").resolve().name == f"step-{step:08d}"
    assert tl.load(out).shape == (3,)


def test_a_file_that_may_not_grow(nursery, tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "run.txt"
    assert nursery.live(out, settings={"steps": 10}) == [0]
    good = {path.name: path.read_bytes() for path in (out / "step-00000010").iterdir()}
    # The next checkpoint is cut off in the middle of its largest file.
    assert nursery.live(out, settings={"steps": 20}, file_limit=len(good["state.pt"]) // 2) == [1]
    assert_left_in_order(out, log, 10)
    assert {path.name: path.read_bytes() for path in (out / "step-00000010").iterdir()} == good
    assert nursery.live(out, settings={"steps": 20}) == [0]
    assert json.loads(log.read_text().splitlines()[-1])["step"] == 20


def test_a_disk_that_fills_up(nursery, small_disk: Path | None, tmp_path: Path) -> None:
    """Checkpoints are written until there is no room; then space is freed and the run resumes to its end."""
    if small_disk is None:  # the test above has shown the same without mounting anything
        return
    order = {"settings": {"steps": 60, "checkpoint_every": 10}, "run": {"keep": 100}}
    out, log = small_disk / "run", small_disk / "run.txt"
    assert nursery.live(out, **order) == [1]
    assert "No space left on device" in log.read_text()
    steps = sorted(int(path.name[5:]) for path in out.glob("step-*"))
    assert len(steps) >= 2
    assert_left_in_order(out, log, steps[-1])
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    assert nursery.live(out, **order) == [0]
    assert nursery.live(tmp_path / "whole", **order) == [0]
    ours, theirs = (folder / "latest" / "model.safetensors" for folder in (out, tmp_path / "whole"))
    assert ours.read_bytes() == theirs.read_bytes()
