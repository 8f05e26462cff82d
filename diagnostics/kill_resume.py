"""Kills a training run 20 times with SIGKILL at random moments, and compares it with one that was left alone.

    python diagnostics/kill_resume.py [--kills 20] [--steps 300] [--seed 0] [--write]

Both are the real command, ``tauleap train digits``, in processes of their own, with dropout, warm-up, average and
validation. The lives are so long that the last one reaches the end. Compared are the published weights to the byte, the
raw weights, Adam's moments, and what was logged. ``--write`` puts the result into docs/training.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

PAGE = Path(__file__).parent.parent / "docs" / "training.md"
MARKS = ("<!-- kill_resume: begin -->", "<!-- kill_resume: end -->")


@dataclass(frozen=True)
class Kill:
    """What a kill found: the last checkpoint, and whether another was being written."""

    step: int
    torn: bool


def command(out: Path, steps: int) -> list[str]:
    flags = ["--steps", str(steps), "--checkpoint-every", "1", "--out", str(out), "--accelerator", "cpu"]
    return [
        sys.executable,
        "-c",
        "import sys; from tauleap.cli import main; sys.exit(main())",
        "train",
        "digits",
        *flags,
    ]


def live(out: Path, steps: int, seconds: float | None) -> int:
    """Runs until the end, or kills after so many seconds; the exit status."""
    log = out.with_suffix(".log").open("a")
    with log, subprocess.Popen(command(out, steps), stdout=log, stderr=log) as process:
        if seconds is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(signal.SIGKILL)
        return process.wait()


def last_step(out: Path) -> int:
    return max((int(path.name[5:]) for path in out.glob("step-*")), default=0)


def torn(out: Path) -> bool:
    return any(out.glob(".step-*.tmp"))


def differences(a: Path, b: Path) -> list[str]:
    """What is not the same, bit for bit; empty where everything is."""
    found = []
    if (a / "latest" / "model.safetensors").read_bytes() != (b / "latest" / "model.safetensors").read_bytes():
        found.append("the published weights")
    first, second = (torch.load(each / "latest" / "state.pt", weights_only=True) for each in (a, b))
    found += [name for name, w in first["weights"].items() if not torch.equal(w, second["weights"][name])]
    for name, moments in first["optimizer"]["state"].items():
        theirs = second["optimizer"]["state"][name]
        found += [f"{moment} of {name}" for moment, value in moments.items() if not torch.equal(value, theirs[moment])]
    logs = ([line.rpartition(",")[0] for line in (each / "train.csv").read_text().splitlines()] for each in (a, b))
    if len(set(map(tuple, logs))) != 1:
        found.append("the logged losses")
    if (a / "validation.csv").read_text() != (b / "validation.csv").read_text():
        found.append("the validation")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills a run and compares it with one that was left alone.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.name}")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    moments = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        began = time.monotonic()
        if live(whole, options.steps, None) != 0:
            sys.exit((whole.with_suffix(".log")).read_text())
        length = time.monotonic() - began
        began = time.monotonic()
        live(Path(folder, "start"), 0, None)
        start = time.monotonic() - began
        kills: list[Kill] = []
        while True:
            # A life spends `start` seconds on getting going; what is left of it is its share of the work, or more.
            seconds = start * moments.uniform(0.7, 1.0) + moments.uniform(0, 1.5) * (length - start) / options.kills
            if live(killed, options.steps, seconds if len(kills) < options.kills else None) == 0:
                break
            kills.append(Kill(last_step(killed), torn(killed)))
            print(f"kill {len(kills)}: last checkpoint at step {kills[-1].step}, torn: {kills[-1].torn}", flush=True)
        wrong = differences(whole, killed)
    same = "every published weight, raw weight, moment of Adam, logged loss and validation result has the same bits."
    told = (
        f"`python diagnostics/kill_resume.py --kills {options.kills} --steps {options.steps} --seed {options.seed}`: "
        f"`tauleap train digits` for {options.steps} steps, killed {len(kills)} times, with the last checkpoint at "
        f"steps {', '.join(str(kill.step) for kill in kills)}; {sum(kill.torn for kill in kills)} of the kills fell "
        "into the writing of a checkpoint. Against a run that was left alone: "
        + (f"**differences in {', '.join(wrong)}**." if wrong else same)
    )
    print(told)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        inside = re.compile(f"{MARKS[0]}.*?{MARKS[1]}", re.DOTALL)
        PAGE.write_text(inside.sub(f"{MARKS[0]}\n{told}\n{MARKS[1]}", text), encoding="utf-8")
    if wrong or len(kills) < options.kills:
        sys.exit(1)


if __name__ == "__main__":
    main()
