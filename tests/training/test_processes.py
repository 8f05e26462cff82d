"""How many processes a run has: what cannot be started, or is not what was started, is refused in one sentence."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import tauleap as tl
from tauleap.training import Run

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
PROGRAM = """
import torch, tauleap as tl
rows = torch.zeros(40, 2, dtype=torch.int64)
def fit(out, **options):
    try:
        tl.fit(rows, num_states=2, steps=1, batch_size=4, width=8, device="cpu", progress=False, out=out, **options)
        print("trained")
    except ValueError as error:
        print(error)
"""


def run(program: str, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], input=program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("first", "second"), [("strategy='ddp'", "devices=2"), ("devices=2", "devices=1")])
def test_a_program_has_one_number_of_processes(first: str, second: str, tmp_path: Path) -> None:
    """LOCAL_RANK stays in the environment, so that a second run starts no processes of its own."""
    path = tmp_path / "program.py"
    path.write_text(f"{PROGRAM}\nfit({str(tmp_path / 'a')!r}, {first})\nfit({str(tmp_path / 'b')!r}, {second})\n")
    printed = run("", str(path)).splitlines()
    number = 2 if first == "devices=2" else 1
    assert printed.count("trained") == number
    assert (
        sum(
            f"runs in {number} process" in line and f"devices x nodes is {3 - number}: write" in line
            for line in printed
        )
        == number
    )
    assert not (tmp_path / "b").exists()


def test_a_program_that_is_no_file_is_not_started_again(tmp_path: Path) -> None:
    printed = run(f"{PROGRAM}\nfit({str(tmp_path / 'a')!r}, devices=2)\n", "-")
    assert "devices=2 starts this program once per device, which needs a file" in printed
    assert not (tmp_path / "a").exists()


def test_machines_that_nothing_starts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"nodes=2 needs a launcher on every machine: .* torchrun --nnodes 2 on each"):
        tl.fit(torch.zeros(9, 2, dtype=torch.int64), num_states=2, steps=1, nodes=2, device="cpu", out=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    monkeypatch.setenv("NODE_RANK", "1")
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    assert Run(out=tmp_path / "a", nodes=2, device="cpu").check().type == "cpu"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_program_that_waits_for_another_machine(number: signal.Signals, tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("tauleap"), "train", "toy", "--nodes", "2", "--device", "cpu"]
    there = ENVIRONMENT | {"NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    command += ["--out", tmp_path / "run"]
    with subprocess.Popen(command, env=there, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:  # Fabric prints it just before it waits
                if "Initializing distributed" in line:
                    break
            time.sleep(1.0)
            process.send_signal(number)
            assert process.wait(20) == -number
        finally:
            process.kill()
    assert not (tmp_path / "run").exists()
