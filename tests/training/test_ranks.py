"""Two processes over gloo do what one does with the whole batch."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import tauleap as tl

SCRIPT = Path(__file__).with_name("lives.py")
TWO = {"devices": 2, "strategy": "ddp"}
CUT = {"devices": 2, "strategy": "fsdp"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        ({"objective": "complete"}, TWO),
        ({"objective": "paper"}, TWO),
        ({"objective": "complete", "masked": True}, TWO),
        ({"objective": "complete", "time_experts": True}, TWO),  # pieces of two rows, three networks: one has none
        ({"objective": "complete"}, CUT),
        ({"objective": "complete", "time_experts": True}, CUT),
    ],
)
def test_the_gradient_of_two_is_that_of_one(
    nursery, tmp_path: Path, settings: dict[str, Any], strategy: dict[str, Any]
) -> None:
    """Gradients to 1e-6, bits/dim and samples to the bit, whatever the number of ranks and pieces."""
    settings = settings | {"dropout": 0.0, "samples": 300, "validation_rows": 70}
    assert nursery.live(tmp_path / "one", measure=True, settings=settings) == [0]
    two = {"out": tmp_path / "two", "measure": True, "settings": settings, "ranks": 2, "port": free_port()}
    assert nursery.live(**two, run=strategy | {"accumulate": 2}) == [0, 0], (tmp_path / "two.txt").read_text()
    one, two = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("one", "two"))
    assert len(one["gradients"]) == len(two["gradients"]) > 10
    ours, theirs = (torch.cat([gradient.flatten() for gradient in each["gradients"]]) for each in (two, one))
    assert theirs.norm() > 1
    assert (ours - theirs).norm() <= 1e-6 * theirs.norm()
    assert one["bits"] == pytest.approx(two["bits"], rel=1e-12)
    assert torch.equal(one["samples"], two["samples"])


def test_the_processes_of_torchrun_are_found(nursery, tmp_path: Path) -> None:
    """Started by it with no flag of ours, two processes share the work and come to what one comes to."""
    settings = {"dropout": 0.0, "samples": 100, "validation_rows": 70}
    assert nursery.live(tmp_path / "one", measure=True, settings=settings) == [0]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    order = json.dumps({"out": str(tmp_path / "two"), "measure": True, "settings": settings})
    command, environment = [sys.executable, *torchrun, SCRIPT, order], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert "MEMBER: 2/2" in done.stderr
    one, two = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("one", "two"))
    ours, theirs = (torch.cat([gradient.flatten() for gradient in each["gradients"]]) for each in (two, one))
    assert (ours - theirs).norm() <= 1e-6 * theirs.norm()
    assert one["bits"] == pytest.approx(two["bits"], rel=1e-12)
    assert torch.equal(one["samples"], two["samples"])


@pytest.mark.parametrize(("strategy", "steps"), [(TWO, 80), (CUT, 30)], ids=["ddp", "fsdp"])
def test_two_ranks_stop_together_and_go_on(nursery, tmp_path: Path, strategy: dict[str, Any], steps: int) -> None:
    """A signal to one of them ends both, with one checkpoint, and they resume bit for bit."""
    order = {"settings": {"steps": steps, "checkpoint_every": 50, "held_out": True}, "ranks": 2, "run": strategy}
    assert nursery.live(tmp_path / "whole", **order, port=free_port()) == [0, 0]
    _, second = nursery.start(tmp_path / "stopped", **order, port=free_port())
    while not (tmp_path / "stopped" / "latest").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(second, signal.SIGTERM)
    assert nursery.statuses() == [3, 3]
    printed = json.loads((tmp_path / "stopped.txt").read_text().splitlines()[-1])
    assert printed["stopped"] == "SIGTERM"
    assert printed["step"] < steps
    assert nursery.live(tmp_path / "stopped", **order, port=free_port()) == [0, 0]
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "stopped" / "latest" / name).read_bytes() == (
            tmp_path / "whole" / "latest" / name
        ).read_bytes()
    state = torch.load(tmp_path / "stopped" / "latest" / "state.pt", weights_only=True)
    assert state["rng"]["cpu"].shape[0] == 2
    assert tl.load(tmp_path / "stopped").shape == (3,)


def test_what_the_first_rank_refuses_ends_the_other_too(nursery, tmp_path: Path) -> None:
    assert nursery.live(tmp_path / "run", settings={"steps": 1}) == [0]
    changed = {"settings": {"steps": 2, "lr": 0.5}, "ranks": 2, "run": TWO}
    assert nursery.live(tmp_path / "run", **changed, port=free_port()) == [1, 0]
    printed = (tmp_path / "run.txt").read_text()
    assert printed.count("settings.lr: 0.01 -> 0.5") == 1


def test_a_run_goes_on_with_another_strategy_and_number_of_ranks(nursery, tmp_path: Path) -> None:
    """Begun by two ranks with a part of the weights each, continued by one process, then by two with copies."""
    settings = {"dropout": 0.0, "clip": 0.5, "checkpoint_every": 50}
    assert nursery.live(tmp_path / "one", settings=settings | {"steps": 12}) == [0]
    changing = tmp_path / "changing"
    two = {"ranks": 2, "port": free_port()}
    assert nursery.live(changing, settings=settings | {"steps": 4}, run=CUT, **two) == [0, 0], log_of(changing)
    assert nursery.live(changing, settings=settings | {"steps": 8}) == [0], log_of(changing)
    two["port"] = free_port()
    assert nursery.live(changing, settings=settings | {"steps": 12}, run=TWO, **two) == [0, 0], log_of(changing)
    assert json.loads(log_of(changing).splitlines()[-1])["step"] == 12
    ours, theirs = (load_file(folder / "latest" / "model.safetensors") for folder in (changing, tmp_path / "one"))
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        assert (ours[name] - weight).abs().max() <= 2e-5, name


def log_of(out: Path) -> str:
    return Path(f"{out}.txt").read_text()
