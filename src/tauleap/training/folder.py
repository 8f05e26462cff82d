"""The folder of a run: how it is recognised, and the names in it that are ours.

``tauleap-run.json`` is created before anything else. A run that was begun before there was such a file is recognised
by a whole checkpoint, if everything beside it has a name that a run writes. In the folder of a run, only the names
below are replaced, truncated or removed; every other file is the user's.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tauleap._files import owned
from tauleap._version import __version__
from tauleap.pretrained.runs import checkpoint_folders
from tauleap.training.checkpoint import is_whole

MARKER = "tauleap-run.json"
LOGS = ("train", "validation")
"""The kinds of rows that are logged, each in a CSV file of its name."""
SAMPLES = "samples"
"""Images of samples by step, or the samples in the format of the data."""

_OWN = re.compile(
    rf"latest|report\.json|(?:damaged-(?:[0-9]+-)?)?(?:{'|'.join(LOGS)})\.csv|step-[0-9]{{8,}}|{SAMPLES}(?:-[0-9]+)?"
)
_OWN_BESIDE = re.compile(
    rf"{_OWN.pattern}|\.lock|tensorboard|copied-(?:[0-9]+-)?latest|other-(?:[0-9]+-)?(?:{'|'.join(LOGS)})\.csv"
    r"|damaged-(?:[0-9]+-)?step-[0-9]{8,}"
)
"""Every name that a run writes into its folder; those that are not in ``_OWN`` are renamed or never replaced."""
_TRAIN_BEGINNING, _TRAIN_END = ["step", "loss"], ["lr", "steps_per_second"]
_VALIDATION = ["step", "bits_per_dim", "stderr", "rows"]
"""Columns of the logs; the terms of the loss are between the first and the last of training."""
_OWN_PICTURES = re.compile(r"step-[0-9]{8,}\.png")
_WHAT = "a run"


def check_run_folder(folder: Path) -> None:
    """Raise an error for a file, or a folder that holds something else than a run.

    Args:
        folder: The path, which need not exist.

    Raises:
        NotADirectoryError: The path is a file.
        ValueError: The folder holds something else.
    """
    if not _begun_without_marker(folder):
        owned.check_folder(folder, MARKER, _WHAT)


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Make ``folder`` the folder of a run, lock it for this process, and remove unfinished files of killed processes.

    Args:
        folder: The path: new, empty, or of a run.

    Raises:
        NotADirectoryError: The path is a file.
        ValueError: The folder holds something else.
        BlockingIOError: Another process trains there.
    """
    content = json.dumps({"tauleap": __version__, "about": "a run of `tauleap train`; keep this file"}) + "\n"
    if _begun_without_marker(folder):
        owned.mark_folder(folder, MARKER, content)
    owned.claim_folder(folder, MARKER, content, _WHAT)
    with owned.locked(folder):
        owned.remove_unfinished(folder, _OWN)
        owned.remove_unfinished(folder / SAMPLES, _OWN_PICTURES)
        yield


def cells_of(line: bytes) -> list[str] | None:
    """Return the cells of a line of a log, None if it is not readable text.

    Args:
        line: The line, without its end.
    """
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
        return (next(csv.reader([text], strict=True), None) or [""]) if text.isprintable() else None
    except (UnicodeDecodeError, csv.Error):
        return None


def _begun_without_marker(folder: Path) -> bool:
    """Return whether ``folder`` holds a run without a marker; raise ValueError if it also holds other files."""
    if not folder.is_dir() or (folder / MARKER).exists():
        return False
    checkpoints = [path for _, path in checkpoint_folders(folder)]
    if not any(is_whole(path) for path in reversed(checkpoints)):
        return False
    unfinished = set(owned.unfinished(folder, _OWN))
    for path in sorted(set(folder.iterdir()) - unfinished - set(checkpoints)):
        if not _OWN_BESIDE.fullmatch(path.name) or path.name.startswith("step-") or not _is_own_log(path):
            raise ValueError(
                f"{folder} holds checkpoints without the file {MARKER}, and also {path.name}, which is not part of a "
                f"run: move {path.name} elsewhere, or write the name of a new folder (--out, or out=...)"
            )
    return True


def _is_own_log(path: Path) -> bool:
    """Return whether a file with the name of a log has the columns of one; True for other names."""
    if path.name not in [f"{kind}.csv" for kind in LOGS]:
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        line = file.readline(100_000)
    cells = cells_of(line.removesuffix(b"\n")) or []
    if not line.endswith(b"\n"):  # killed while it wrote the first line
        begun = _VALIDATION if path.stem == "validation" else _TRAIN_BEGINNING
        return ",".join(begun).startswith(",".join(cells[: len(begun)]))
    if path.stem == "validation":
        return cells == _VALIDATION
    return cells[:2] == _TRAIN_BEGINNING and cells[-2:] == _TRAIN_END
