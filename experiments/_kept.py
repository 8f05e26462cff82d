"""What trained models leave on disk, and pieces of an evaluation that know of which weights they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tauleap import _files
from tauleap.objective import Objective
from tauleap.training.recipe import differences, plainly


def write_piece(path: Path, piece: dict[str, np.ndarray], mark: str) -> None:
    """Whole or not at all, with the ``mark`` of the weights."""
    with _files.atomic_write(path) as file:
        np.savez_compressed(file, **piece, mark=np.array(mark))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all: two processes may write at once."""
    path.parent.mkdir(exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def mark_of(path: Path) -> str | None:
    """Of the weights that a piece was made with; None where there is no piece."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as piece:
        return str(piece["mark"])


def read_piece(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as piece:
        return dict(piece)


def steps_of(folder: Path) -> int | None:
    """Of a run's newest checkpoint, from its name."""
    name = (folder / "latest").resolve().name
    return int(name.removeprefix("step-")) if name.startswith("step-") else None


def settings_of(folder: Path) -> dict[str, Any]:
    """The numbers that the run was trained with."""
    return _recipe_of(folder)["settings"]


def objective_of(folder: Path, objective: Objective) -> str:
    """Return the objective of the run as it is written in code: ``objective``, if the run has recorded that."""
    other = differences({"objective": _recipe_of(folder)["objective"]}, {"objective": plainly(objective)})
    if other:
        raise SystemExit(f"{folder} was trained with another objective ({'; '.join(other)}): train it again")
    return repr(objective)


def _recipe_of(folder: Path) -> dict[str, Any]:
    with (folder / "latest" / "recipe.json").open(encoding="utf-8") as file:
        return json.load(file)["recipe"]


def curve_of(folder: Path) -> list[list[float]]:
    """Steps and bits/dim of the validation rows, with standard errors, while it was trained."""
    path = folder / "validation.csv"
    if not path.exists():
        return []
    lines = [line.split(",") for line in path.read_text().splitlines()]
    step, bits, stderr = (lines[0].index(name) for name in ("step", "bits_per_dim", "stderr"))
    return [[int(line[step]), float(line[bits]), float(line[stderr])] for line in lines[1:]]
