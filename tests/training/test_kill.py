"""Killed at any moment and started again, a run gives the weights it would have given."""

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from tauleap.training import Run, state, train

KILLS = 6


def outcome(out: Path) -> tuple[bytes, dict]:
    """The published weights to the byte, and the run's state."""
    kept = state.from_bytes((out / "latest" / "state.pt").read_bytes())
    return (out / "latest" / "model.safetensors").read_bytes(), kept


def assert_same_run(a: Path, b: Path) -> None:
    (published_a, a_state), (published_b, b_state) = outcome(a), outcome(b)
    assert a_state["step"] == b_state["step"]
    assert published_a == published_b
    for name, weight in a_state["weights"].items():
        assert torch.equal(weight, b_state["weights"][name]), name
    for name, moments in a_state["optimizer"]["state"].items():
        for moment, value in moments.items():
            assert torch.equal(value, b_state["optimizer"]["state"][name][moment]), (name, moment)
    logs = [[line.rpartition(",")[0] for line in (out / "train.csv").read_text().splitlines()] for out in (a, b)]
    assert logs[0] == logs[1]  # up to the last column, steps a second


def test_killed_at_random_moments(nursery, tmp_path: Path) -> None:
    order = {"settings": {"steps": 150, "checkpoint_every": 4, "masked": True}}
    began = time.monotonic()
    assert nursery.live(tmp_path / "whole", **order) == [0]
    length = time.monotonic() - began
    moments, kills = random.Random(0), 0
    while True:
        (pid,) = nursery.start(tmp_path / "killed", **order)
        if kills < KILLS:
            time.sleep(moments.uniform(0.02, 0.3) * length)
            with contextlib.suppress(ProcessLookupError):  # it may have finished
                os.kill(pid, signal.SIGKILL)
        (status,) = nursery.statuses()
        if status == 0:
            break
        assert status == -signal.SIGKILL, (tmp_path / "killed.txt").read_text()
        kills += 1
    assert kills >= 3, "the lives were too short to be killed"
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    leftovers = [path.name for path in (tmp_path / "killed").iterdir() if path.name.endswith(".tmp")]
    assert leftovers == []


def test_terminated(nursery, tmp_path: Path) -> None:
    """SIGTERM and Ctrl-C lose not even the step that was being made."""
    order = {"settings": {"steps": 100, "checkpoint_every": 1000}}
    assert nursery.live(tmp_path / "whole", **order) == [0]
    for stop in (signal.SIGTERM, signal.SIGINT):
        out = tmp_path / stop.name  # a folder of its own: its first checkpoint says that the run listens
        (pid,) = nursery.start(out, **order)
        while not (out / "latest").exists():
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(pid, stop)
        assert nursery.statuses() == [3]
        assert stop.name in out.with_suffix(".txt").read_text().splitlines()[-1]
        assert nursery.live(out, **order) == [0]
        assert_same_run(tmp_path / "whole", out)


def test_two_on_one_folder(nursery, recipe, tmp_path: Path) -> None:
    (pid,) = nursery.start(tmp_path / "run", settings={"steps": 100_000})
    while not (tmp_path / "run" / "latest").exists():
        time.sleep(0.01)
    with pytest.raises(BlockingIOError, match=f"in use by process {pid} on"):
        train(recipe(), Run(out=tmp_path / "run", device="cpu"))
    # The lock of a process that was killed is no lock.
    os.kill(pid, signal.SIGKILL)
    nursery.statuses()
    assert nursery.live(tmp_path / "run", settings={"steps": 0}) == [0]
