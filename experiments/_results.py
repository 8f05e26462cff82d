"""Read the runs of trained models, and write results that are labelled with the weights they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tauleap import _files
from tauleap.objective import Objective
from tauleap.training.recipe import differences, to_jsonable


def write_piece(path: Path, piece: dict[str, np.ndarray], mark: str) -> None:
    """Write arrays atomically, with the ``mark`` of the weights."""
    with _files.atomic_write(path) as file:
        np.savez_compressed(file, **piece, mark=np.array(mark))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON atomically, since two processes may write at the same time."""
    path.parent.mkdir(exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def mark_of(path: Path) -> str | None:
    """Return the mark of the weights that a file belongs to, or None if the file does not exist."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as piece:
        return str(piece["mark"])


def read_piece(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as piece:
        return dict(piece)


def steps_of(folder: Path) -> int | None:
    """Return the step of the newest checkpoint of a run."""
    name = (folder / "latest").resolve().name
    return int(name.removeprefix("step-")) if name.startswith("step-") else None


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the settings that a run was trained with."""
    return _recipe_of(folder)["settings"]


def objective_of(folder: Path, objective: Objective) -> str:
    """Return the Python expression of ``objective``, after a check that the run was trained with it."""
    changes = differences({"objective": _recipe_of(folder)["objective"]}, {"objective": to_jsonable(objective)})
    if changes:
        raise SystemExit(f"{folder} was trained with another objective ({'; '.join(changes)}): train it again")
    return repr(objective)


def _recipe_of(folder: Path) -> dict[str, Any]:
    with (folder / "latest" / "recipe.json").open(encoding="utf-8") as file:
        return json.load(file)["recipe"]


def curve_of(folder: Path) -> list[list[float]]:
    """Return step, bits/dim of the validation rows and its standard error, at each validation of a run."""
    path = folder / "validation.csv"
    if not path.exists():
        return []
    lines = [line.split(",") for line in path.read_text().splitlines()]
    step, bits, stderr = (lines[0].index(name) for name in ("step", "bits_per_dim", "stderr"))
    return [[int(line[step]), float(line[bits]), float(line[stderr])] for line in lines[1:]]
