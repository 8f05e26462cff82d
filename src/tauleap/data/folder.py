"""List the files of a folder by the ending of their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_MAX_FILES = 1_000_000
"""So that a wrong path, such as a root folder, is an error and not an endless search."""


def files_in(folder: Path, suffixes: Sequence[str] | None = None) -> list[Path]:
    """Return all files below a folder in the order of their names, without hidden files and linked folders.

    Args:
        folder: The folder.
        suffixes: Endings of the files, in lower case. Default: any.

    Raises:
        ValueError: There are no such files, or more than a million.
    """
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            if not name.startswith(".") and (suffixes is None or path.suffix.lower() in suffixes) and path.is_file():
                found.append(path)
        if len(found) > _MAX_FILES:
            raise ValueError(f"{folder} has more than {_MAX_FILES:,} files: use several smaller folders")
    if not found:
        kind = "files" if suffixes is None else f"{', '.join(suffixes)} files"
        raise ValueError(f"{folder} contains no {kind}: write the name of a folder with such files")
    return sorted(found)
