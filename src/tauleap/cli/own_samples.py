"""The samples that ``tauleap train`` writes beside a model of the user's data: replaced by the same command only."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from torch import Tensor

from tauleap import _files, _owned, _read
from tauleap.data import Format
from tauleap.training.folder import SAMPLES

_LIST = ".tauleap-samples.json"
"""Names the files that were written into a folder of samples, and marks the folder as ours."""


def write_samples(run: Path, form: Format, x: Tensor) -> list[Path]:
    """Write samples in the data's own form into ``samples`` in the folder of a run.

    Samples that an earlier command of the run wrote there are replaced. If the folder holds anything else, it stays as
    it is and the new samples are written into ``samples-2``, or the next number.

    Args:
        run: the folder of the run.
        form: how samples are written.
        x: states, (n, *shape).

    Returns:
        The files.
    """
    folder = next(path for path in _candidates(run) if _removed(path))
    with _files.appearing(folder) as unfinished:
        written = [path.name for path in form.write(x, unfinished)]
        (unfinished / _LIST).write_text(json.dumps({"files": written}) + "\n", encoding="utf-8")
    return [folder / name for name in written]


def _candidates(run: Path) -> itertools.chain[Path]:
    return itertools.chain([run / SAMPLES], (run / f"{SAMPLES}-{number}" for number in itertools.count(2)))


def _removed(folder: Path) -> bool:
    """Whether the name is free now: there was no such folder, or one whose files we have written, which is removed."""
    if not folder.is_dir() or folder.is_symlink():
        return not (folder.exists() or folder.is_symlink())
    try:
        listed = _read.document(folder / _LIST, inside=folder)["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return isinstance(listed, list) and _owned.remove_folder(folder, [_LIST, *listed])
