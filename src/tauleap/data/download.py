"""Downloads of files with a known checksum, which are stored in the user's cache."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tauleap import _files

if TYPE_CHECKING:
    from rich.progress import Progress

_TIMEOUT = 60.0  # seconds without a byte


def cache_folder() -> Path:
    """Return the folder of downloads: ``$TAULEAP_CACHE``, or else tauleap in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    own = os.environ.get("TAULEAP_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tauleap"


def fetch(url: str, path: Path, *, sha256: str, max_bytes: int) -> Path:
    """Download a file, unless it exists with the known checksum, and return its path.

    The file appears under its name after its checksum was verified; a failed download leaves no file.

    Args:
        url: The address.
        path: The file.
        sha256: Its known checksum, in hexadecimal digits.
        max_bytes: The largest number of bytes to read; a longer response cannot be the file.

    Raises:
        ValueError: The downloaded file has another checksum or is too long.
        OSError: The file could not be downloaded.
    """
    if path.is_file() and sha256_of(path) == sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.atomic_write(path) as file:
        _retrieve(url, Path(file.name), max_bytes)
        found = sha256_of(Path(file.name))
        if found != sha256:
            size = os.stat(file.name).st_size
            raise ValueError(
                f"{url} returned another file than expected: {size:,} bytes with the SHA-256 {found}, not {sha256}. "
                "The download was deleted: try again, or download the file by other means and give its path"
            )
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits.

    Args:
        path: The file.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _retrieve(url: str, path: Path, max_bytes: int) -> None:
    # torch.hub.download_url_to_file also verifies a checksum, but it reads a response of any length.
    try:
        with _progress() as progress, _default_timeout():
            task = progress.add_task(url.rpartition("/")[2], total=None)

            def report(blocks: int, block_bytes: int, total: int) -> None:
                if max(blocks * block_bytes - block_bytes, total) > max_bytes:
                    raise ValueError(f"{url} returned more than {max_bytes:,} bytes, so it is not the expected file")
                progress.update(task, completed=blocks * block_bytes, total=None if total < 0 else total)

            urllib.request.urlretrieve(url, path, report)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise OSError(
            f"{url} could not be downloaded: {error}. Try again, or download it by other means and give its path"
        ) from error


@contextmanager
def _default_timeout() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
