"""Writing files so that a reader finds the old file or the whole new one, never half of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the name ``path`` when the block ends well, and vanishes when it does not."""
    path = Path(path)
    # In the same folder, because a rename is atomic only within a file system; opened by hand, because tempfile would
    # hide the result from everybody but its owner.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
