"""One process at a time trains in a folder."""

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
    """Holds ``folder`` for this process, or refuses; when the process ends, however it ends, the folder is free.

    With another ``name``, the path of the lock in the folder, only that part of the work there is held.
    """
    path = folder / name
    with owned.open_plain(path, "a+", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BlockingIOError(
                f"{folder} is in use by {holder}: wait for it, stop it, or write another folder"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
