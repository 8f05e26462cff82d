"""What is too much, found out before memory is taken for it."""

from __future__ import annotations

import os
from pathlib import Path

from tauleap._files import safe_read

FILE_BYTES = 2**30
"""Of one file that is read as a whole, and of what an archive unpacks to."""
ROW_VALUES = 2**24
"""Of one row of a file that is read row by row, whose size has no limit."""
VALUES = 2**30
"""Sites of all rows together."""
STATES = 100_000
"""Of one site."""
CATEGORIES = 1000
"""Of one column of a table."""


def contents(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file that is not too large.

    Args:
        path: The file.
        most: The largest number of bytes. Default: ``FILE_BYTES``.
    """
    size(path, most)
    return safe_read.read_bytes(path, most=FILE_BYTES if most is None else most)


def size(path: Path, most: int | None = None, *, remedy: str = "write a part of it to a file of its own") -> int:
    """Return how many bytes a file has; refuse one that is empty, too large, or not a file.

    Args:
        path: the file.
        most: bytes, ``FILE_BYTES`` by default.
        remedy: what to do with a file that is too large.
    """
    most = FILE_BYTES if most is None else most
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    found = os.stat(path).st_size
    if found > most:
        raise ValueError(f"{path} has {found:,} bytes, more than {most:,}: {remedy}")
    if found == 0:
        raise ValueError(f"{path} is empty")
    return found
