"""Lock a folder, so that only one process trains there."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tauleap._files import owned


@contextmanager
def locked(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Lock a folder for this process; the lock ends with the block or with the process.

    Args:
        folder: The folder.
        name: The path of the lock file in the folder; several names are several locks. Default: ``.lock``.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    path = folder / name
    with owned.open_plain(path, "a+", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BlockingIOError(
                f"{folder} is in use by {holder}: wait until it ends, stop it, or write another folder"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
