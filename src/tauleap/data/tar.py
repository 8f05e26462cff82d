"""The files in a tar archive, read from its beginning to its end: nothing is unpacked to the disk.

Python's own reader serves every archive there is, and can be kept busy for ever, or made to take any memory, by a
header that was written for that. An archive of known files with short names needs little of the format: a header of 512
bytes with a name, a size in octal digits, a type and a checksum, and the contents in whole blocks of 512 bytes.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from tauleap.data import limits

_BLOCK = 512
_AT_ONCE = 2**16
_PLAIN = (b"0", b"\0")


class Member(NamedTuple):
    """An entry: its name, its size in bytes, and its contents if it is a plain file of the size that was asked for."""

    name: str
    size: int
    content: bytes | None


def members(path: Path, *, size: int, most: int) -> Generator[Member, None, None]:
    """The entries of an archive, compressed by gzip or not; contents of files of ``size`` bytes, one at a time.

    An archive that unpacks to more than ``most`` bytes, or ends before its end, is refused. What changes the name of
    the entry after it is skipped, as such names are too long to be among those that are looked for.
    """
    limits.size(path)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.GzipFile(fileobj=file) if packed else nullcontext(file) as unpacked:
                yield from _Tape(unpacked, path, most).members(size)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


class _Tape:
    """A file that is read forwards, up to ``most`` bytes of it."""

    def __init__(self, file: io.BufferedIOBase, path: Path, most: int) -> None:
        self._file, self._path, self._most, self._read = file, path, most, 0

    def members(self, wanted: int) -> Generator[Member, None, None]:
        while (head := self._some(_BLOCK)).strip(b"\0"):
            name, size, kind = self._header(head)
            padded = -(-size // _BLOCK) * _BLOCK
            if size == wanted and kind in _PLAIN:
                yield Member(name, size, self._exactly(padded)[:size])
                continue
            while padded:
                padded -= len(self._exactly(min(padded, _AT_ONCE)))
            yield Member(name, size, None)
        while self._some(_AT_ONCE):  # to the end, where gzip's checksum is
            pass

    def _header(self, head: bytes) -> tuple[str, int, bytes]:
        found = sum(head) - sum(head[148:156]) + 8 * ord(" ")
        if len(head) < _BLOCK or _octal(head[148:156]) != found:
            raise ValueError(
                f"{self._path} is damaged, or no tar archive: there is no header before byte {self._read:,}"
            )
        size = _octal(head[124:136])
        if size is None:
            raise ValueError(f"{self._path} is damaged: the header before byte {self._read:,} has no size")
        parts = (head[345:500] if head[257:263] == b"ustar\0" else b"", head[:100])
        name = "/".join(part.partition(b"\0")[0].decode("latin-1") for part in parts if part.strip(b"\0"))
        return name, size, head[156:157]

    def _exactly(self, number: int) -> bytes:
        block = self._some(number)
        if len(block) < number:
            raise ValueError(f"{self._path} is damaged: it ends after {self._read:,} bytes, in the middle of a file")
        return block

    def _some(self, number: int) -> bytes:
        if self._read + number > self._most:
            number = self._most - self._read + 1
        block = self._file.read(number)
        self._read += len(block)
        if self._read > self._most:
            raise ValueError(f"{self._path} unpacks to more than {self._most:,} bytes")
        return block


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else None
