"""Fit models within a budget of processor time, so that the results do not depend on what else the machine does.

The budget of ``--minutes 3`` is that of three minutes on two idle cores: six minutes of processor time, here on one
thread. It counts the steps of training; validation and measuring come on top.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

import tauleap as tl
from tauleap import _files
from tauleap.choose import choose
from tauleap.data import Dataset, LoadedData
from tauleap.data.text import TextFormat
from tauleap.training import Recipe, Run, train

CORES = 2
"""The cores whose minutes are the budget."""
_FIRST, _PILOT = 20, 120
"""Steps that are not timed, and the last step of those that are."""


def fitted(
    data: LoadedData, folder: Path, *, minutes: float, seed: int, held_out: int
) -> tuple[tl.Model, dict[str, Any]]:
    """Return the model that ``tauleap.fit`` chooses and trains in this time, and what was run; a stopped run resumes.

    Args:
        data: The rows.
        folder: The folder of the run.
        minutes: Minutes on two cores, which also decide the size of the network.
        seed: The seed.
        held_out: The number of rows that are held out.
    """
    chosen = choose(data.dataset, is_text=isinstance(data.form, TextFormat), minutes=minutes)
    network = chosen.denoiser().network  # pyright: ignore[reportAttributeAccessIssue] (a denoiser of a transformer)
    sizes = {name: network.config[name] for name in ("width", "depth")}
    plan_file, done_file = folder / "plan.json", folder / "done.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not plan_file.exists():
        recipe = Recipe(
            "pilot",
            lambda: (data.dataset, None),
            lambda: tl.Model(chosen.process, chosen.denoiser(), shape=data.dataset.shape),
            chosen.objective,
            chosen.settings,
            masking=chosen.masking,
        )
        pace = seconds_per_step(recipe)
        write_json(plan_file, {"steps": int(60 * CORES * minutes / pace), "seconds_per_step": round(pace, 5)} | sizes)
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    if not done_file.exists():
        began, first = time.process_time(), last_step(folder / "run")
        model = tl.fit(
            data,
            steps=plan["steps"],
            seed=seed,
            validation=held_out,
            out=folder / "run",
            width=sizes["width"],
            depth=sizes["depth"],
        )
        seconds = time.process_time() - began
        about = model.about
        write_json(
            done_file,
            {
                "minutes": minutes,
                "seed": seed,
                "steps": about["steps_trained"],
                "selected_step": about["step"],
                "weights": about["weights"],
                "seconds_per_step": plan["seconds_per_step"],
                # Of this command alone, if the run was resumed; with validation and measuring.
                "processor_minutes": round(seconds / 60, 2),
                "steps_of_this_command": about["steps_trained"] - first,
                "choice": about["choice"],
                "bits": {name: about[name] for name in about if name.startswith("bits_per_")},
            }
            | sizes,
        )
    return tl.load(folder / "run"), json.loads(done_file.read_text(encoding="utf-8"))


def seconds_per_step(recipe: Recipe) -> float:
    """Return the processor time of a step of training, from a run of 120 steps that is discarded.

    Args:
        recipe: What to train.
    """
    with tempfile.TemporaryDirectory() as folder:

        def run(steps: int) -> float:
            began = time.process_time()
            settings = replace(recipe.settings, steps=steps, validate_every=None)
            train(
                replace(recipe, settings=settings), Run(folder, tensorboard=False), console=Console(file=io.StringIO())
            )
            return time.process_time() - began

        run(_FIRST)
        again = run(_FIRST)  # loads the checkpoint and makes no step
        return (run(_PILOT) - again) / (_PILOT - _FIRST)


def last_step(folder: Path) -> int:
    """Return the step of the newest checkpoint of a run, 0 for none."""
    return max((int(path.name.removeprefix("step-")) for path in folder.glob("step-*") if path.is_dir()), default=0)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def stored(path: Path, compute: Callable[[], Any]) -> Any:
    """Return the JSON values of a file, computed and written if it does not exist."""
    if not path.exists():
        write_json(path, compute())
    return json.loads(path.read_text(encoding="utf-8"))


def split(data: Dataset, held_out: int, seed: int) -> tuple[Dataset, Dataset]:
    """Return the training and held-out rows as ``tauleap.fit`` splits them."""
    return data.split(held_out, seed=seed)
