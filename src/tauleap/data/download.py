"""Files from elsewhere, downloaded once, compared with a known checksum, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tauleap import _files

if TYPE_CHECKING:
    from rich.progress import Progress

_BLOCK = 2**18
_TIMEOUT = 60.0  # seconds without a byte


def cache_folder() -> Path:
    """Where downloads are kept: ``$TAULEAP_CACHE``, or tauleap in ``$XDG_CACHE_HOME`` or in ``~/.cache``."""
    own = os.environ.get("TAULEAP_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tauleap"


def fetch(url: str, path: Path, *, md5: str, most: int) -> Path:
    """``path``, which is downloaded from ``url`` unless it is there and whole.

    The file gets its name when its MD5 is the known one; otherwise nothing is left. ``most`` is the number of bytes
    after which an answer cannot be the file that is wanted.
    """
    if path.is_file() and _md5(path) == md5:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, got = hashlib.md5(usedforsecurity=False), 0
    with _files.atomic_write(path) as file, closing(_blocks(url)) as blocks:
        for block in blocks:
            got += len(block)
            if got > most:
                raise ValueError(f"{url} gives more than {most:,} bytes, so it is not the file that is wanted")
            digest.update(block)
            file.write(block)
        if digest.hexdigest() != md5:
            raise ValueError(
                f"what {url} gives is not the file that is known: {got:,} bytes with the MD5 {digest.hexdigest()}, "
                f"not {md5}. Nothing was kept: try again, or download it by other means and give its path"
            )
    return path


def _blocks(url: str) -> Generator[bytes, None, None]:
    """What an address gives, all of it; or an OSError that says what to do."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer, _progress() as progress:
            length = answer.headers.get("Content-Length", "")
            promised = int(length) if length.isdecimal() else None
            task = progress.add_task(url.rpartition("/")[2], total=promised)
            got = 0
            while block := answer.read(_BLOCK):
                got += len(block)
                progress.advance(task, len(block))
                yield block
            if promised is not None and got < promised:
                raise ConnectionError(f"it ended after {got:,} of {promised:,} bytes")
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise OSError(
            f"{url} could not be downloaded: {error}. Try again, or download it by other means and give its path"
        ) from error


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
