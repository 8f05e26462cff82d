"""Writing files so that a reader finds the old file or the whole new one, never half of it.

What has got its name is on the disk, not in a cache: it survives the process, and the machine.
"""

from __future__ import annotations

import os
import shutil
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
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _flush_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that takes the name ``path``, which must be free, when the block ends well; or vanishes."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.mkdir()
    try:
        yield unfinished
        for file in unfinished.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        _flush_folder(unfinished)
        unfinished.rename(path)
        _flush_folder(path.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def point(link: Path, target: str) -> None:
    """Makes ``link`` a symbolic link to ``target``, in place of what it pointed to before."""
    unfinished = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(link)
    _flush_folder(link.parent)


def remove(folder: Path) -> None:
    """Removes a folder, at once for whoever looks at its name."""
    going = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    folder.rename(going)
    shutil.rmtree(going)


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed process has left in ``folder``; nobody may be writing there."""
    for path in folder.glob(".*.tmp"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _flush_folder(folder: Path) -> None:
    """A name is safe only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
