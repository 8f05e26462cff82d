"""Upper limits of sizes, which are checked before memory is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from tauleap._files import safe_read

FILE_BYTES = 2**30
"""Bytes of a file that is read as a whole, and of an unpacked archive."""
ROW_VALUES = 2**24
"""Values per row of a file that is read row by row; the file itself may have any size."""
VALUES = 2**30
"""Values of all rows together."""
STATES = 100_000
"""States per site."""
CATEGORIES = 1000
"""Categories per column of a table."""


def contents(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a file that is not too large.

    Args:
        path: The file.
        most: The largest number of bytes. Default: ``FILE_BYTES``.

    Raises:
        ValueError: The file is empty, too large, or not a file.
    """
    size(path, most)
    return safe_read.read_bytes(path, most=FILE_BYTES if most is None else most)


def size(path: Path, most: int | None = None, *, remedy: str = "write part of it to another file") -> int:
    """Return the number of bytes of a file that is neither empty nor too large.

    Args:
        path: The file.
        most: The largest number of bytes. Default: ``FILE_BYTES``.
        remedy: Advice for a user whose file is too large.

    Raises:
        ValueError: The file is empty, too large, or not a file.
    """
    most = FILE_BYTES if most is None else most
    if not path.is_file():
        raise ValueError(f"{path} is not a file: write the name of a file")
    count = os.stat(path).st_size
    if count > most:
        raise ValueError(f"{path} has {count:,} bytes, more than {most:,}: {remedy}")
    if count == 0:
        raise ValueError(f"{path} is empty: write a file that has data")
    return count
