"""Where the checkpoints of a run are: found by their names, whether or not ``latest`` has survived a copy."""

from __future__ import annotations

import re
from pathlib import Path

from tauleap._files import safe_read
from tauleap._files.manifest import MANIFEST

LATEST = "latest"
REPORT = "report.json"
CHECKPOINT_FILES = ("config.json", "model.safetensors", "recipe.json", "state.pt", MANIFEST)
"""Everything that training writes into the folder of a checkpoint."""

_NAME = re.compile(r"step-([0-9]{8,})")


def checkpoint_folders(run: Path) -> list[tuple[int, Path]]:
    """Return steps and folders of the checkpoints in ``run``, the oldest first.

    Args:
        run: the folder of a run, which need not exist. Files, and folders without any file of a checkpoint, are left
            out whatever their names.
    """
    found = []
    for path in run.iterdir() if run.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match is not None and any((path / name).is_file() for name in CHECKPOINT_FILES):
            found.append((int(match[1]), path))
    return sorted(found)


def latest_checkpoint(run: Path) -> Path | None:
    """Return the folder of the checkpoint that a run publishes; None where ``run`` holds none.

    That is the target of the link ``latest``. A copy may have made it a folder, or lost it: then it is the checkpoint
    of which ``latest`` is a copy, or the one that ``report.json`` chose at the end of training, or the newest.
    """
    link, folders = run / LATEST, checkpoint_folders(run)
    by_name = {path.name: path for _, path in folders}
    if link.is_symlink():
        target = link.resolve()
        if target.parent == run.resolve() and target.name in by_name:
            return by_name[target.name]
    elif link.is_dir() and any((link / name).is_file() for name in CHECKPOINT_FILES):
        copied = _manifest(link)
        twins = [path for _, path in folders if copied is not None and _manifest(path) == copied]
        return twins[-1] if twins else link
    return _reported(run, folders) or (folders[-1][1] if folders else None)


def _reported(run: Path, folders: list[tuple[int, Path]]) -> Path | None:
    """The checkpoint that the report names, if the report was written after the newest checkpoint."""
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
