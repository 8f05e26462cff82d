"""Writing files so that a reader finds the old file or the whole new one, never half of it.

A file that has got its name is on the disk, not in a cache: it survives the process, and the machine. An unfinished
file is called ``.NAME.PID.tmp``; it is created, never opened if it exists, so that no file of somebody else is
overwritten.
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
"""The file that marks a temporary folder of :func:`staged` as ours; it is locked by the process that fills the folder.
"""
STAGE = "files"

T = TypeVar("T")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the name ``path`` when the block ends well, and vanishes when it does not."""
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
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill that takes the name ``path``, which must be free, when the block ends well; or vanishes."""
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
def staged(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder to fill that becomes ``path``, new or empty, in a folder that is not ours.

    Unlike :func:`appearing` it leaves a marker beside the files, so that :func:`tauleap._owned.remove_abandoned` can
    distinguish the temporary folder of a killed process from a folder of the user.
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
    """Remove a temporary folder of :func:`staged`; its marker goes last, so that a kill on the way changes nothing."""
    shutil.rmtree(unfinished / STAGE, ignore_errors=True)
    (unfinished / UNFINISHED).unlink(missing_ok=True)
    with suppress(OSError):  # somebody has put a file there, which stays
        unfinished.rmdir()


def point(link: Path, target: str) -> None:
    """Makes ``link`` a symbolic link to ``target``, in place of what it pointed to before."""
    unfinished, _ = _created(link, lambda name: name.symlink_to(target))
    unfinished.replace(link)
    flush_folder(link.parent)


def temporary_names(path: Path) -> Iterator[Path]:
    """Yield the names that an unfinished ``path`` may have, that of this process first."""
    for number in itertools.count(os.getpid()):
        yield path.with_name(f".{path.name}.{number}.tmp")


def flush_folder(folder: Path) -> None:
    """A name is safe only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _created(path: Path, create: Callable[[Path], T]) -> tuple[Path, T]:
    """The first temporary name that is free, and what ``create`` made of it."""
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
