"""What is too much, found out before memory is taken for it."""

from __future__ import annotations

import os
from pathlib import Path

from tauleap import _read

FILE_BYTES = 2**30
"""Of one file, and of what an archive unpacks to."""
VALUES = 2**30
"""Sites of all rows together."""
STATES = 100_000
"""Of one site."""
CATEGORIES = 1000
"""Of one column of a table."""


def contents(path: Path, most: int | None = None) -> bytes:
    """The bytes of a file that is not too large."""
    size(path, most)
    return _read.content(path, most=FILE_BYTES if most is None else most)


def size(path: Path, most: int | None = None) -> int:
    """How many bytes a file has; refuses one that is empty, too large, or not a file."""
    most = FILE_BYTES if most is None else most
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    found = os.stat(path).st_size
    if found > most:
        raise ValueError(f"{path} has {found:,} bytes, more than {most:,}: write a part of it to a file of its own")
    if found == 0:
        raise ValueError(f"{path} is empty")
    return found
