"""Write files atomically: a reader finds the old file or the complete new one.

A file that has its final name is flushed to the disk, so it survives a crash of the process or the machine. An
unfinished file is called ``.NAME.PID.tmp``; it is always created, and an existing file is never opened, so that no file
of the user is overwritten.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

UNFINISHED = "tauleap-unfinished"
"""The file that marks a temporary folder of :func:`staged_dir` as ours; the process that fills the folder locks
it."""
STAGE = "files"

T = TypeVar("T")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a binary file that is renamed to ``path`` when the block succeeds and is removed when it raises.

    Args:
        path: the final name; an existing file is replaced.
    """
    path = Path(path)
    # In the same folder, because a rename is atomic only within a file system; opened by hand, because tempfile would
    # hide the result from everybody but its owner.
    unfinished, file = _created(path, lambda name: name.open("xb"))
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        flush_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder to fill that is renamed to ``path`` when the block succeeds and is removed when it raises.

    Args:
        path: the final name, which must not exist.
    """
    path = Path(path)
    unfinished, _ = _created(path, lambda name: name.mkdir())
    try:
        yield unfinished
        _flush_files(unfinished)
        unfinished.rename(path)
        flush_folder(path.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def staged_dir(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder to fill that is renamed to ``path``, inside a folder that belongs to the user.

    Unlike :func:`atomic_dir` it puts a marker beside the files, so that
    :func:`tauleap._files.owned.remove_abandoned` can distinguish the temporary folder of a killed process from a folder
    of the user.

    Args:
        path: the final name, a new or empty folder; its parents are created.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, _ = _created(path, lambda name: name.mkdir())
    with (unfinished / UNFINISHED).open("x") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        stage = unfinished / STAGE
        stage.mkdir()
        try:
            yield stage
            _flush_files(stage)
            stage.rename(path)
            flush_folder(path.parent)
        finally:
            remove_staged(unfinished)


def remove_staged(unfinished: Path) -> None:
    """Remove a temporary folder of :func:`staged_dir`.

    The marker is removed last, so that a process that is killed here leaves a folder that is still recognised.

    Args:
        unfinished: the temporary folder, with the marker in it.
    """
    shutil.rmtree(unfinished / STAGE, ignore_errors=True)
    (unfinished / UNFINISHED).unlink(missing_ok=True)
    with suppress(OSError):  # another program has put a file there, which stays
        unfinished.rmdir()


def replace_symlink(link: Path, target: str) -> None:
    """Create or replace a symbolic link atomically.

    Args:
        link: the path of the link.
        target: the path that it points to, relative to its folder.
    """
    unfinished, _ = _created(link, lambda name: name.symlink_to(target))
    unfinished.replace(link)
    flush_folder(link.parent)


def temporary_names(path: Path) -> Iterator[Path]:
    """Yield the names that an unfinished ``path`` may have, that of this process first.

    Args:
        path: the final name.
    """
    for number in itertools.count(os.getpid()):
        yield path.with_name(f".{path.name}.{number}.tmp")


def flush_folder(folder: Path) -> None:
    """Flush a folder to the disk: a new name survives a crash only after this.

    Args:
        folder: an existing folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _created(path: Path, create: Callable[[Path], T]) -> tuple[Path, T]:
    """Return the first temporary name that does not exist, and the result of ``create`` for it."""
    # A process with the same number may have been killed here before: in a container numbers are small.
    for unfinished in temporary_names(path):
        try:
            return unfinished, create(unfinished)
        except FileExistsError:
            continue
    raise AssertionError("unreachable: there is always another number")


def _flush_files(folder: Path) -> None:
    for file in folder.iterdir():
        with file.open("rb") as written:
            os.fsync(written.fileno())
    flush_folder(folder)
