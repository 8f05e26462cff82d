"""Recognise folders that tauleap created, lock them, and remove only files there that tauleap wrote.

Such a folder, called ours below, holds a marker, a file that is created before all others. Every other folder that is
not empty belongs to the user and is refused.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from re import Pattern
from typing import IO

from tauleap._files import atomic

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9]+\.tmp")


def check_folder(folder: Path, marker: str, what: str) -> None:
    """Refuse a path at which we must not write.

    Args:
        folder: the path, which need not exist.
        marker: name of the file that makes a folder ours.
        what: the contents of such a folder, such as "a run", for the message.

    Raises:
        NotADirectoryError: the path is not a folder.
        ValueError: the folder holds files, but not the marker.
    """
    check_no_file(folder, f"{what} (--out, or out=...)")
    if folder.is_dir() and not (folder / marker).is_file() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty and does not hold {what} of tauleap: write the name of a new folder (--out, or "
            "out=...)"
        )


def check_no_file(path: Path, what: str) -> None:
    """Refuse a path at which there is something other than a folder.

    Args:
        path: the path, which need not exist.
        what: the contents of the folder, such as "the samples", for the message.

    Raises:
        NotADirectoryError: the path is a file, or a link to nothing.
    """
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file" if path.exists() else "a link to nothing"
        raise NotADirectoryError(f"{path} is {kind}: write the name of a folder for {what}")


def claim_folder(folder: Path, marker: str, content: str, what: str) -> None:
    """Make ``folder`` ours, if it is new, empty or ours already; the arguments are those of :func:`check_folder`.

    Args:
        folder: the path.
        marker: name of the file that makes a folder ours.
        content: The text of this file, which says to a person what the folder is.
        what: the contents of such a folder, for the message.
    """
    check_folder(folder, marker, what)
    folder.mkdir(parents=True, exist_ok=True)
    mark_folder(folder, marker, content)


def mark_folder(folder: Path, marker: str, content: str) -> None:
    """Create the marker of a folder, or complete one that a killed process left half written.

    Args:
        folder: an existing folder.
        marker: name of the marker; the name alone makes the folder ours.
        content: its text, which says to a person what the folder is.
    """
    with open_plain(folder / marker, "a+", errors="replace") as file:
        # The last character is enough, and the file may be of any size.
        file.seek(max(0, os.fstat(file.fileno()).st_size - 1))
        if file.read(1) != "\n":
            file.truncate(0)
            file.write(content)
    atomic.flush_folder(folder)


@contextmanager
def open_plain(path: Path, mode: str, *, errors: str | None = None, newline: str | None = None) -> Iterator[IO[str]]:
    """Open a text file of ours for appending; a link is refused, because its target may be a file of the user.

    Args:
        path: the file, which need not exist.
        mode: "a" or "a+".
        errors: see :func:`open`. Default: bytes that are not UTF-8 are an error.
        newline: see :func:`open`. Default: universal newlines.

    Raises:
        FileExistsError: the path is a link, a folder, a FIFO or something else that is not a plain file.
    """
    with suppress(FileNotFoundError):
        _check_plain(os.lstat(path), path)

    def create(name: str, flags: int) -> int:
        # O_NONBLOCK does not wait for the other end of a FIFO that was created since the check.
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    with open(path, mode, encoding="utf-8", errors=errors, newline=newline, opener=create) as file:
        _check_plain(os.fstat(file.fileno()), path)
        yield file


def _check_plain(status: os.stat_result, path: Path) -> None:
    """Raise FileExistsError unless the status is that of a plain file."""
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        raise FileExistsError(f"{path} is {kind}, it must be a plain file: move it away and run the same command again")


@contextmanager
def locked(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Lock a folder for this process; the lock ends with the block or with the process.

    Args:
        folder: the folder.
        name: the path of the lock file in the folder; several names are several locks. Default: ``.lock``.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    path = folder / name
    with open_plain(path, "a+", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BlockingIOError(
                f"{folder} is in use by {holder}: wait until it ends, stop it, or write the name of another folder"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def free_name(path: Path, prefix: str) -> Path:
    """Return ``prefix-NAME``, or ``prefix-2-NAME`` and so on where that exists.

    Args:
        path: a path that ends in NAME.
        prefix: such as "damaged".

    >>> free_name(Path("/nowhere/train.csv"), "damaged").name
    'damaged-train.csv'
    """
    number, found = 1, path.with_name(f"{prefix}-{path.name}")
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{prefix}-{number}-{path.name}")
    return found


def set_aside(path: Path, prefix: str) -> Path:
    """Rename a file or folder to a name that does not exist, and return its new path.

    Args:
        path: the file or folder.
        prefix: see :func:`free_name`.
    """
    aside = free_name(path, prefix)
    path.rename(aside)
    return aside


def remove_folder(folder: Path, names: Container[str]) -> bool:
    """Remove a folder if it holds only files of ours.

    It is renamed first, so that it disappears at once. A link is left alone, because the user has moved the folder to
    another place.

    Args:
        folder: the folder.
        names: the names that may be removed.

    Returns:
        Whether the folder was removed.
    """
    if folder.is_symlink() or any(path.name not in names for path in folder.iterdir()):
        return False
    temporary = next(path for path in atomic.temporary_names(folder) if not os.path.lexists(path))
    folder.rename(temporary)
    shutil.rmtree(temporary)
    return True


def unfinished(folder: Path, names: Pattern[str]) -> Iterator[Path]:
    """Yield the unfinished files and folders whose final names match a pattern.

    Args:
        folder: where to look; it need not exist.
        names: a pattern for complete final names.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and names.fullmatch(match["name"]):
            yield path


def remove_unfinished(folder: Path, names: Pattern[str]) -> None:
    """Remove the unfinished files and folders of killed processes.

    Args:
        folder: a folder of ours in which no process writes.
        names: a pattern for complete final names.
    """
    for path in list(unfinished(folder, names)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_abandoned(path: Path) -> None:
    """Remove the temporary folders that killed processes left beside ``path``.

    The folder around ``path`` is not ours, so the name is not enough: a temporary folder must be empty or hold our
    marker, which a running process has locked.

    Args:
        path: the final name, which was given to :func:`tauleap._files.staged_dir`.
    """
    path = Path(os.path.realpath(path))
    for found in list(unfinished(path.parent, re.compile(re.escape(path.name)))):
        if found.is_symlink() or not found.is_dir():
            continue
        marker = found / atomic.UNFINISHED
        if not marker.is_file():
            with suppress(OSError):  # it holds something: not ours
                found.rmdir()
            continue
        with marker.open("a") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            atomic.remove_staged(found)
