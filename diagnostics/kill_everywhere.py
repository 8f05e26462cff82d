"""Kill train, sample and complete before every file operation, run them again, and compare the results.

    python diagnostics/kill_everywhere.py [--budget 600] [--points 0] [--twice 10] [--only CASE ...] [--write]

A process forked from this one runs a command and sends SIGKILL to itself just before file operation number k, for every
k; half of a write is an operation, too. The same command then runs to its end. All files below the folder must be equal
to those of a run that was not killed: none missing, duplicated or left over, and the user's files unchanged.
``--twice`` also kills the second run, that many times per case at random. ``--points`` takes that many equally
spaced k of each case instead of all. ``--write`` writes the counts to docs/training.md.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from _kills import live, preload

from tauleap import cli
from tauleap.data import Dataset
from tauleap.data.image.format import ImageFormat
from tauleap.denoise import NetworkDenoiser
from tauleap.model import Model
from tauleap.network import ResidualMLP
from tauleap.noise import Constant, Uniform
from tauleap.objective import CompleteElbo
from tauleap.pretrained.runs import checkpoint_folders
from tauleap.training import Recipe, Run, Settings, state, train
from tauleap.training.checkpoint import is_whole

for _name in ("complete", "sample", "train"):  # so that the forks need not import them
    importlib.import_module(f"tauleap.cli.run.{_name}")
PAGE = Path(__file__).parent.parent / "docs" / "training.md"
MARKS = ("<!-- kill_everywhere: begin -->", "<!-- kill_everywhere: end -->")
FOREIGN = {
    "notes.txt": "mine",
    "plots.csv": "step,a\n1,2\n99,3\n",
    ".mine.tmp": "mine",
    ".plots.csv.12.tmp": "mine",
    ".run.12.tmp/thesis.tex": "mine",
    ".s.12.tmp": "mine",
    ".c.12.tmp/thesis.tex": "mine",
    "step-x": "a file",
    "step-00000abc/state.pt": "no checkpoint",
    "step-00000999/notes.txt": "no checkpoint",
    "damaged-step-00000001/notes.txt": "mine",
    "pictures/step-00000001.png": "mine",
}
"""Files of the user, some with names that are nearly ours."""


@dataclass(frozen=True)
class Case:
    """A command, the folder in which it starts, and the name of the folder into which it writes."""

    name: str
    start: Path
    run: Callable[[], int]
    out: str


@dataclass
class Counts:
    """The result of a case."""

    name: str
    operations: int
    kills: int = 0
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)


def command(*words: object) -> Callable[[], int]:
    """Return a command line as a function."""
    return lambda: cli.main([str(word) for word in words])


def train_recipe(steps: int) -> int:
    """Train with a checkpoint and a log row per step, and figures and validation every second step."""
    data = Dataset(torch.arange(60).reshape(20, 3) % 5, num_states=5)

    def model() -> Model:
        network = ResidualMLP(5, (3,), width=4, hidden=4, depth=1)
        return Model(Uniform(5, Constant(1.0)), NetworkDenoiser(network), shape=(3,))

    settings = Settings(
        steps=steps,
        batch_size=4,
        lr=1e-2,
        checkpoint_every=1,
        log_every=1,
        validate_every=2,
        validation_rows=4,
        sample_every=2,
        samples=2,
    )
    recipe = Recipe("tiny", lambda: (data, data), model, CompleteElbo(), settings, picture=_picture)
    train(recipe, Run(out="run", device="cpu", tensorboard=False, keep=2))
    return 0


def _picture(x: torch.Tensor) -> Any:
    return x.to(torch.uint8).numpy()


def cases(folder: Path) -> list[Case]:
    """Return every command, from scratch and resumed in a folder with files of the user."""
    first = _start(folder / "first")
    torch.manual_seed(0)
    network = ResidualMLP(256, (1, 2, 2), width=8, hidden=8, depth=1)
    pictures = Model(Uniform(256, Constant(0.01)), NetworkDenoiser(network), shape=(1, 2, 2), form=ImageFormat(1, 2, 2))
    pictures.save(first / "pictures-model")
    fit = ("train", "data.csv", "--out", "run", "--device", "cpu", "--steps")
    sample = ("sample", "model", "-n", 25, "--batch-size", 10, "--steps", 2, "--out", "s")
    sample_pictures = ("sample", "pictures-model", "-n", 5, "--batch-size", 2, "--steps", 2, "--out", "s")
    complete = ("complete", "model", "data.csv", "--variants", 2, "--steps", 2, "--out", "c")

    def after(name: str, run: Callable[[], int], out: str, last: int | None = None) -> Path:
        """Return the folder of a run, with files of the user inside."""
        start = shutil.copytree(first, folder / name, symlinks=True)
        life = live(start, run, last)
        if life.code != (0 if last is None else -signal.SIGKILL):
            raise RuntimeError(f"{name}: {life.printed}")
        _add_foreign(start / out)
        return start

    preload(command(*fit, 2), shutil.copytree(first, folder / "preload"))
    trained = after("trained", command(*fit, 2), "run")
    shutil.copytree(trained / "run", first / "model", symlinks=True)
    (first / "empty").mkdir()
    halfway = after("halfway", lambda: train_recipe(2), "run")
    damaged = shutil.copytree(halfway, folder / "damaged", symlinks=True)
    log = damaged / "run" / "train.csv"
    log.write_bytes(log.read_bytes().replace(b"\n1,", b"\n1\xff,"))
    shutil.copytree(damaged / "run" / "step-00000001", damaged / "run" / "step-00000003")
    (damaged / "run" / "step-00000003" / "state.pt").write_bytes(b"half")
    (damaged / "run" / "latest").unlink()
    shutil.copytree(damaged / "run" / "step-00000002", damaged / "run" / "latest")
    return [
        Case("train", first, command(*fit, 2), "run"),
        Case("train, more steps", trained, command(*fit, 3), "run"),
        Case("train by a recipe", first, lambda: train_recipe(3), "run"),
        Case("train by a recipe, more steps", halfway, lambda: train_recipe(4), "run"),
        Case("train, damaged and copied", damaged, lambda: train_recipe(3), "run"),
        Case("sample", first, command(*sample), "s"),
        Case("sample, begun", after("sampled", command(*sample), "s", 30), command(*sample), "s"),
        Case("sample pictures", first, command(*sample_pictures), "s"),
        Case("complete", first, command(*complete), "c"),
        Case("complete into an empty folder", first, command(*complete[:-1], "empty"), "empty"),
    ]


def _start(folder: Path) -> Path:
    _add_foreign(folder)
    (folder / "tmp").mkdir()
    rows = [f"{'xy'[i % 2]},{'pqr'[i % 3]}" for i in range(20)]
    rows[3] = "x,"
    (folder / "data.csv").write_text("one,two\n" + "\n".join(rows) + "\n")
    return folder


def _add_foreign(folder: Path) -> None:
    for name, text in FOREIGN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def contents(work: Path) -> dict[str, Any]:
    """Return all contents below a folder, without values that depend on the clock or the process."""
    return {str(path.relative_to(work)): _content(path) for path in work.rglob("*")}


def _content(path: Path) -> Any:
    if path.is_symlink() or not path.is_file():
        return os.readlink(path) if path.is_symlink() else None
    data = path.read_bytes()
    if path.name == ".lock":
        return "a lock"
    if path.name == "train.csv":
        return [line.rpartition(b",")[0] for line in data.splitlines()]  # the last column is steps per second
    if path.name == "report.json":
        report = json.loads(data)
        report["about"].pop("seconds")
        del report["sha256"]  # it covers the seconds
        return report
    if path.name in ("manifest.json", "state.pt") and is_whole(path.parent):
        return "whole" if path.name == "manifest.json" else _plain(state.from_bytes(data))
    return hashlib.sha256(data).hexdigest()


def _plain(value: Any) -> Any:
    """Return a value with lists instead of tuples, as in a state that was read from a file."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, hashlib.sha256(value.numpy().tobytes()).hexdigest()
    return value


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return paths that are missing, left over, or different."""
    return (
        [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
        + [f"{name} is left over" for name in sorted(found.keys() - expected.keys())]
        + [f"{name} differs" for name in sorted(expected.keys() & found.keys()) if found[name] != expected[name]]
    )


def trouble(case: Case, work: Path, expected: dict[str, Any], lasts: list[int]) -> list[str]:
    """Return the faults after kills before these operations and a run to the end."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(case.start, work, symlinks=True)
    torn_before = {path for _, path in checkpoint_folders(work / case.out) if not is_whole(path)}
    for last in lasts:
        life = live(work, case.run, last)
        if life.code != -signal.SIGKILL and last == lasts[0]:
            return [f"it was not killed: {life.code}, {life.printed[-2000:]}"]
        torn = {path for _, path in checkpoint_folders(work / case.out) if not is_whole(path)} - torn_before
        if torn:
            return [f"half a checkpoint: {', '.join(map(str, torn))}"]
        for name in (*FOREIGN, *(f"{case.out}/{name}" for name in FOREIGN)):
            if (case.start / name).is_file() and not (work / name).is_file():
                return [f"a file of the user is gone: {name}"]
    life = live(work, case.run)
    # Completing into a folder that is finished is refused; what is left beside it must be gone all the same.
    if life.code != 0 and not (life.code == 2 and "exists already" in life.printed):
        return [f"the next run left with {life.code}: {life.printed[-2000:]}"]
    return differences(contents(work), expected)


def examine(case: Case, work: Path, points: int, twice: int, end: float, chance: random.Random) -> Counts:
    """Kill a case before each of its operations, or before as many as the time allows."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(case.start, work, symlinks=True)
    life = live(work, case.run)
    if life.code != 0:
        return Counts(case.name, 0, wrong=[f"without a kill: {life.code}, {life.printed[-2000:]}"])
    expected, counts = contents(work), Counts(case.name, life.operations)
    number = min(points or life.operations, life.operations)
    plan = [[(2 * at + 1) * life.operations // (2 * number)] for at in range(number)]
    plan += [[chance.randrange(life.operations), chance.randrange(life.operations)] for _ in range(twice)]
    chance.shuffle(plan)  # so that a short budget is spent on the whole run, not on its beginning
    for lasts in plan:
        if time.monotonic() > end:
            counts.skipped += 1
            continue
        counts.wrong += [f"killed before {lasts}: {text}" for text in trouble(case, work, expected, lasts)]
        counts.kills += len(lasts)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills commands before every file operation and runs them again.")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds in all")
    parser.add_argument("--points", type=int, default=0, help="kills per case, evenly spaced; 0: every operation")
    parser.add_argument("--twice", type=int, default=10, help="runs per case that are killed twice, at random")
    parser.add_argument("--only", nargs="*", help="names of cases; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"put the counts into {PAGE.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chance, began, found = random.Random(options.seed), time.monotonic(), list[Counts]()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # flushing to a disk takes most of the time
    with tempfile.TemporaryDirectory(prefix="kill-everywhere-", dir=memory) as scratch:
        chosen = [case for case in cases(Path(scratch).resolve()) if case.name in (options.only or [case.name])]
        for place, case in enumerate(chosen):
            # Time that a case does not need is left to the cases after it.
            now = time.monotonic()
            end = now + (began + options.budget - now) / (len(chosen) - place)
            work = Path(scratch).resolve() / "work"
            counts = examine(case, work, options.points, options.twice, end, chance)
            found.append(counts)
            print(
                f"{counts.name}: {counts.operations} operations, {counts.kills} kills, {len(counts.wrong)} wrong, "
                f"{counts.skipped} not tried for lack of time, {time.monotonic() - now:.0f} s",
                *counts.wrong[:5],
                sep="\n  ",
                flush=True,
            )
    kills, wrong = sum(counts.kills for counts in found), sum(len(counts.wrong) for counts in found)
    skipped = sum(counts.skipped for counts in found)
    each = ", ".join(f"{counts.name} {counts.kills} times" for counts in found)
    text = (
        f"`python diagnostics/kill_everywhere.py --twice {options.twice} --seed {options.seed}`: "
        f"{kills} kills before file operations of "
        f"{len(found)} commands ({each}), {wrong} of them with a difference after the next run, {skipped} not tried."
    )
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        inside = re.compile(f"{MARKS[0]}.*?{MARKS[1]}", re.DOTALL)
        PAGE.write_text(inside.sub(lambda _: f"{MARKS[0]}\n{text}\n{MARKS[1]}", page), encoding="utf-8")
    sys.exit(1 if wrong or not kills else 0)


if __name__ == "__main__":
    main()
