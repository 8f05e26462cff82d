"""Reads and writes arrays of whole numbers in ``.npy`` and ``.npz`` files.

The header is read first, by itself: its type must be a kind of whole number (so nothing is unpickled), and its shape
must be what the file has bytes for, so that memory is taken only for what is there.
"""

from __future__ import annotations

import io
import lzma
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, cast

import numpy as np
import torch
from torch import Tensor

from tauleap.data import limits

MAGIC = b"\x93NUMPY"
"""The first bytes of an ``.npy`` file."""
# What numpy's parser raises for a header that is none.
_BAD_HEADER = (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, KeyError, TokenError)
_PREFERRED = ("x", "data", "train", "x_train", "arr_0")
_MISSING = "missing"
_TOO_LARGE = 'to train on it, save the array by itself with numpy.save("x.npy", x), which is read row by row'
BAD_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    MemoryError,
    KeyError,
)
"""What zipfile and the libraries that unpack for it raise where an archive is damaged."""


@dataclass(frozen=True)
class Header:
    """The contents of a header, checked against the size of the file.

    Args:
        shape: of the array.
        dtype: a type of whole numbers.
        column_major: whether the first axis varies fastest.
        offset: where in the file the values begin.
        rest: bytes after the header that were read with it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    column_major: bool
    offset: int
    rest: bytes


def parse_header(file: io.BufferedIOBase, size: int, where: str) -> Header:
    """Return the header of an open file.

    Args:
        file: at the beginning of the array.
        size: bytes of the file.
        where: its name in messages.

    Raises:
        ValueError: it is not a header, not of whole numbers, or of another number of bytes than there are.
    """
    # The header is at most 64 KiB, and it is parsed apart from the file, so that nothing else can be asked of it.
    head = file.read(min(size, 2**16 + 12))
    parse = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in parse:
            raise ValueError(f"its version {version} is not known")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of old versions are no concern of the reader
            shape, column_major, dtype = parse[version](stream)
    except _BAD_HEADER as error:
        raise ValueError(f"{where} is not an array in numpy's format: {error}") from error
    if dtype.hasobject or dtype.kind not in "iub" or dtype.shape:
        raise ValueError(f"{where} must hold whole numbers, got {dtype}: save x.astype(numpy.int64) or categories")
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in shape):
        raise ValueError(f"{where} has a shape that is none: {shape}")
    offset = stream.tell()
    needed, there = math.prod(shape) * dtype.itemsize, size - offset
    if needed != there:
        raise ValueError(f"{where} is damaged: shape {shape} of {dtype} needs {needed:,} bytes, it has {there:,}")
    return Header(shape, dtype, column_major, offset, stream.read())


def read_array(path: Path, name: str | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the array of whole numbers in a file, and the array ``missing`` of an ``.npz``, if there is one.

    Args:
        path: An ``.npy`` or ``.npz`` file.
        name: Which array of an ``.npz``. Default: one with a common name, or the only one.
    """
    limits.size(path, remedy=_TOO_LARGE)
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            if name is not None:
                raise ValueError(f"{path} holds one array without a name: leave the name {name!r} out")
            file.seek(0)
            found = parse_array(file, path.stat().st_size, str(path))
            check_rows(found.shape, path)
            return found, None
    with _archive(path) as (archive, entries):
        return _from_archive(archive, entries, path, name)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return those of the named arrays of whole numbers that an ``.npz`` has, by name.

    Args:
        path: The file.
        names: The names; other arrays are not read.
    """
    limits.size(path, remedy=_TOO_LARGE)
    with _archive(path) as (archive, entries):
        return {name: read_entry(archive, entries[name], f"{path}: {name}") for name in names if name in entries}


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An archive and its entries by name; what the libraries say of a damaged one becomes ours."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive, {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    except BAD_ARCHIVE as error:
        raise ValueError(f"{path} is damaged, or no archive of arrays: {error}") from error


def _from_archive(
    archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], path: Path, name: str | None
) -> tuple[np.ndarray, np.ndarray | None]:
    names = [key for key in entries if key != _MISSING]
    if name is None:
        name = next((key for key in _PREFERRED if key in names), names[0] if len(names) == 1 else None)
    if name is None or name not in entries:
        raise ValueError(f"{path} holds the arrays {', '.join(names[:20]) or '(none)'}: say which one is the data")
    found = read_entry(archive, entries[name], f"{path}: {name}")
    check_rows(found.shape, path)
    if _MISSING not in entries or name == _MISSING:
        return found, None
    missing = read_entry(archive, entries[_MISSING], f"{path}: {_MISSING}")
    if missing.dtype != bool or missing.shape != found.shape:
        raise ValueError(f"{path}: {_MISSING} must be bool of shape {found.shape}, got {missing.dtype} {missing.shape}")
    return found, missing if missing.any() else None


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str) -> np.ndarray:
    """Return the array of whole numbers in one entry of an archive.

    What an archive that is damaged there raises is one of ``BAD_ARCHIVE``.

    Args:
        archive: The archive.
        entry: The entry.
        where: Its name in messages.
    """
    if entry.file_size > limits.FILE_BYTES:
        raise ValueError(f"{where} unpacks to {entry.file_size:,} bytes, more than {limits.FILE_BYTES:,}: {_TOO_LARGE}")
    with archive.open(entry) as file:
        return parse_array(cast(io.BufferedIOBase, file), entry.file_size, where)


def parse_array(file: io.BufferedIOBase, size: int, where: str) -> np.ndarray:
    """Return the array of an open file, after its header was checked.

    Args:
        file: The file, at the beginning of the array.
        size: Its number of bytes.
        where: Its name in messages.
    """
    header = parse_header(file, size, where)
    wanted = size - header.offset
    if wanted > limits.FILE_BYTES:
        raise ValueError(f"{where} has {wanted:,} bytes, more than {limits.FILE_BYTES:,}: {_TOO_LARGE}")
    content = header.rest + file.read(max(wanted - len(header.rest), 0))
    if len(content) != wanted:
        raise ValueError(f"{where} is damaged: it ends after {len(content):,} of {wanted:,} bytes")
    dtype = header.dtype
    found = np.frombuffer(content, dtype=dtype).reshape(header.shape, order="F" if header.column_major else "C")
    if dtype.kind == "u" and dtype.itemsize == 8 and found.size and int(found.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{where} holds numbers above {np.iinfo(np.int64).max}: save the states 0, 1, 2, ...")
    return np.array(found, dtype=dtype.newbyteorder("="), order="C")


def check_rows(shape: tuple[int, ...], path: Path) -> None:
    """Raise ValueError where an array has no rows.

    Args:
        shape: of the array.
        path: its file.
    """
    if not 0 < len(shape) <= 8 or math.prod(shape) == 0:
        raise ValueError(f"{path} must hold rows, an array (n, ...) with n >= 1, got shape {shape}")


def save_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write an array of numbers as ``np.save`` does, but raise the error of a full disk, which that hides.

    Args:
        file: The file.
        array: The array.
    """
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.tobytes())


def smallest(x: Tensor) -> Tensor:
    """Return states in the smallest integer type that holds them.

    Args:
        x: States.
    """
    high = int(x.max())
    kinds = ((255, torch.uint8), (2**15 - 1, torch.int16), (2**31 - 1, torch.int32))
    return x.to(next((dtype for most, dtype in kinds if high <= most), torch.int64))
