"""The folder of a run: how it is recognised, and the names in it that are ours.

``tauleap-run.json`` is created before anything else. A run that was begun before there was such a file is recognised
by a whole checkpoint. In the folder of a run, only the names below are replaced, truncated or removed; every other file
is the user's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tauleap import _owned
from tauleap._version import __version__
from tauleap.pretrained.checkpoints import checkpoint_folders
from tauleap.training.checkpoint import is_whole
from tauleap.training.lock import locked

MARKER = "tauleap-run.json"
LOGS = ("train", "validation")
"""The kinds of rows that are logged, each in a CSV file of its name."""
SAMPLES = "samples"
"""Pictures of samples by the step, or the samples in the form of the data."""

_OWN = re.compile(
    rf"latest|report\.json|(?:damaged-(?:[0-9]+-)?)?(?:{'|'.join(LOGS)})\.csv|step-[0-9]{{8,}}|{SAMPLES}(?:-[0-9]+)?"
)
_OWN_PICTURES = re.compile(r"step-[0-9]{8,}\.png")
_WHAT = "a run"


def check_run_folder(folder: Path) -> None:
    """Refuse a path that is a file, or a folder of something else than a run; see :func:`tauleap._owned.check_folder`.

    Args:
        folder: the path, which need not exist.
    """
    if not _begun_without_marker(folder):
        _owned.check_folder(folder, MARKER, _WHAT)


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Make ``folder`` the folder of a run, hold it for this process, and remove what a killed process has left there.

    Args:
        folder: the path: new, empty, or of a run.

    Raises:
        NotADirectoryError: the path is a file.
        ValueError: the folder holds something else.
        BlockingIOError: another process trains there.
    """
    content = json.dumps({"tauleap": __version__, "about": "a run of `tauleap train`; keep this file"}) + "\n"
    if _begun_without_marker(folder):
        _owned.mark_folder(folder, MARKER, content)
    _owned.claim_folder(folder, MARKER, content, _WHAT)
    with locked(folder):
        _owned.remove_unfinished(folder, _OWN)
        _owned.remove_unfinished(folder / SAMPLES, _OWN_PICTURES)
        yield


def _begun_without_marker(folder: Path) -> bool:
    if not folder.is_dir() or (folder / MARKER).exists():
        return False
    return any(is_whole(path) for _, path in reversed(checkpoint_folders(folder)))
