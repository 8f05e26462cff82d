"""Find the checkpoints of a run, and write and read its report.

Checkpoints are found by their names, also if a copy of the folder has lost the link ``latest``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauleap import _files
from tauleap._files import safe_read
from tauleap._files.manifest import MANIFEST
from tauleap.storage.save import CONFIG, config_bytes, has_right_checksum, with_checksum

LATEST = "latest"
REPORT = "report.json"
_REPORT_CHECKSUM = "sha256"
CHECKPOINT_FILES = ("config.json", "model.safetensors", "recipe.json", "state.pt", MANIFEST)
"""Everything that training writes into the folder of a checkpoint."""

_NAME = re.compile(r"step-([0-9]{8,})")


def checkpoint_folders(run: Path) -> list[tuple[int, Path]]:
    """Return steps and folders of the checkpoints in ``run``, the oldest first.

    Args:
        run: The folder of a run, which need not exist. Files, and folders without files of a checkpoint, are
            ignored.
    """
    found = []
    for path in run.iterdir() if run.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match is not None and any((path / name).is_file() for name in CHECKPOINT_FILES):
            found.append((int(match[1]), path))
    return sorted(found)


def latest_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint to which ``latest`` points; None if ``run`` holds no checkpoint.

    Copying a run may turn the link into a folder, or lose it. Then the result is the checkpoint of which ``latest`` is
    a copy, or the one that ``report.json`` names, or the newest.

    Args:
        run: The folder of a run, which need not exist.
    """
    link, folders = run / LATEST, checkpoint_folders(run)
    by_name = {path.name: path for _, path in folders}
    if link.is_symlink():
        target = Path(os.path.realpath(link))  # which does not fail where a link points to itself
        if target.parent == run.resolve() and target.name in by_name:
            return by_name[target.name]
    elif link.is_dir() and any((link / name).is_file() for name in CHECKPOINT_FILES):
        copied = _manifest(link)
        twins = [path for _, path in folders if copied is not None and _manifest(path) == copied]
        return twins[-1] if twins else link
    return _reported(run, folders) or (folders[-1][1] if folders else None)


def write_report(run: Path, checkpoint: Path, about: Mapping[str, Any]) -> None:
    """Write the report of a checkpoint's model beside the checkpoint, which is never changed.

    Args:
        run: The folder of the run.
        checkpoint: The folder of the checkpoint.
        about: The report, as JSON values.
    """
    report = with_checksum({"checkpoint": checkpoint.name, "about": about}, _REPORT_CHECKSUM)
    content = json.dumps(report, indent=2, allow_nan=False)
    with _files.atomic_write(run / REPORT) as file:
        file.write(content.encode() + b"\n")


def check_storable(folder: Path) -> None:
    """Raise ValueError unless :func:`store_about` can change the report of the model in a folder.

    Args:
        folder: The folder of a run or of a saved model.
    """
    if (folder / MANIFEST).is_file():
        raise ValueError(
            f"{folder} is a checkpoint, which is never changed: write the folder of its run, or --out FOLDER"
        )


def store_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Replace the report of the model in a folder: in its configuration, or beside the latest checkpoint of a run.

    Args:
        folder: The folder of a run or of a saved model.
        about: The report, as JSON values.

    Raises:
        ValueError: It is the folder of a checkpoint.
    """
    check_storable(folder)
    if not (folder / CONFIG).is_file():
        checkpoint = latest_checkpoint(folder)
        if checkpoint is None:
            raise FileNotFoundError(f"{folder} holds no model: write the folder of a run or of a saved model")
        return write_report(folder, checkpoint, about)
    config = safe_read.read_json(folder / CONFIG, inside=folder)
    with _files.atomic_write(folder / CONFIG) as file:
        file.write(config_bytes(config | {"about": dict(about)}))
    return None


def read_report(run: Path, checkpoint: Path) -> dict[str, Any]:
    """Return the report of a checkpoint's model; empty if there is none, or if it is damaged.

    Args:
        run: The folder of the run, or the checkpoint itself.
        checkpoint: The folder of the checkpoint.
    """
    folder = run if (run / REPORT).is_file() else run.parent
    try:
        report = safe_read.read_json(folder / REPORT, inside=folder)
    except (OSError, ValueError):
        return {}
    fits = isinstance(report, dict) and report.get("checkpoint") == checkpoint.resolve().name
    fits = fits and has_right_checksum(report, _REPORT_CHECKSUM)
    about = report.get("about") if fits else None
    return about if isinstance(about, dict) else {}


def _reported(run: Path, folders: list[tuple[int, Path]]) -> Path | None:
    """Return the checkpoint that the report names, if the report was written after the newest checkpoint."""
    try:
        report = safe_read.read_json(run / REPORT, inside=run)
        named, last = report["checkpoint"], report["about"]["steps_trained"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    chosen = [path for _, path in folders if path.name == named]
    return chosen[0] if chosen and folders[-1][0] == last else None


def _manifest(folder: Path) -> bytes | None:
    try:
        return safe_read.read_bytes(folder / MANIFEST, inside=folder, most=safe_read.JSON_BYTES)
    except (OSError, ValueError):
        return None
