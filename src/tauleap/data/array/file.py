"""Read and write arrays of whole numbers in ``.npy`` and ``.npz`` files.

The header is read first: its dtype must be an integer or bool (so nothing is unpickled), and its shape must match the
size of the file, so that a forged header cannot allocate memory.
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
# The exceptions that numpy's parser raises for an invalid header.
_BAD_HEADER = (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, KeyError, TokenError)
_PREFERRED = ("x", "data", "train", "x_train", "arr_0")
_MISSING = "missing"
_TOO_LARGE = 'save the array with numpy.save("x.npy", x), which is read row by row, to train on it'
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
"""The exceptions that zipfile and its decompressors raise for a damaged archive."""


@dataclass(frozen=True)
class Header:
    """Hold the contents of a header, checked against the size of the file.

    Args:
        shape: The shape of the array.
        dtype: An integer or bool dtype.
        column_major: Whether the first axis varies fastest.
        offset: The position of the first value in the file, in bytes.
        rest: The bytes after the header that were read with it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    column_major: bool
    offset: int
    rest: bytes


def parse_header(file: io.BufferedIOBase, size: int, where: str) -> Header:
    """Return the header of an open file.

    Args:
        file: The file, at the beginning of the array.
        size: The number of bytes of the file.
        where: The name of the file in messages.

    Raises:
        ValueError: The header is invalid, not of whole numbers, or does not match the size of the file.
    """
    # The header has at most 64 KiB. It is parsed from a copy, so that a forged one cannot read on in the file.
    head = file.read(min(size, 2**16 + 12))
    parse = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in parse:
            raise ValueError(f"its version is {version}, accepted are (1, 0) and (2, 0)")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # A header of an old version is valid.
            shape, column_major, dtype = parse[version](stream)
    except _BAD_HEADER as error:
        raise ValueError(f"{where} is not an array in numpy's format: {error}") from error
    if dtype.hasobject or dtype.kind not in "iub" or dtype.shape:
        raise ValueError(f"{where} must hold whole numbers, got {dtype}: save x.astype(numpy.int64)")
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in shape):
        raise ValueError(f"{where} is damaged: its shape must be whole numbers >= 0, got {shape}")
    offset = stream.tell()
    needed, available = math.prod(shape) * dtype.itemsize, size - offset
    if needed != available:
        raise ValueError(f"{where} is damaged: shape {shape} of {dtype} needs {needed:,} bytes, it has {available:,}")
    return Header(shape, dtype, column_major, offset, stream.read())


def read_array(path: Path, name: str | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the array of whole numbers in a file, and the mask ``missing`` of an ``.npz``, or None.

    Args:
        path: An ``.npy`` or ``.npz`` file.
        name: The name of the array in an ``.npz``. Default: x, data, train, x_train or arr_0, or else the only one.
    """
    limits.size(path, remedy=_TOO_LARGE)
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            if name is not None:
                raise ValueError(f"{path} contains one array without a name: omit array={name!r}")
            file.seek(0)
            values = parse_array(file, path.stat().st_size, str(path))
            check_rows(values.shape, path)
            return values, None
    with _archive(path) as (archive, entries):
        return _from_archive(archive, entries, path, name)


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the arrays of whole numbers in an ``.npz`` that have one of some names.

    Args:
        path: The file.
        names: The names. An absent one is skipped, and other arrays are not read.
    """
    limits.size(path, remedy=_TOO_LARGE)
    with _archive(path) as (archive, entries):
        return {name: read_entry(archive, entries[name], f"{path}: {name}") for name in names if name in entries}


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Yield an archive and its entries by name; a damaged archive raises ValueError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive, {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
    except BAD_ARCHIVE as error:
        raise ValueError(f"{path} is damaged or not an .npz: {error}") from error


def _from_archive(
    archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], path: Path, name: str | None
) -> tuple[np.ndarray, np.ndarray | None]:
    names = [key for key in entries if key != _MISSING]
    if name is None:
        name = next((key for key in _PREFERRED if key in names), names[0] if len(names) == 1 else None)
    if name is None or name not in entries:
        raise ValueError(
            f"{path} contains the arrays {', '.join(names[:20]) or '(none)'}: write array=NAME for the one to read"
        )
    values = read_entry(archive, entries[name], f"{path}: {name}")
    check_rows(values.shape, path)
    if _MISSING not in entries or name == _MISSING:
        return values, None
    missing = read_entry(archive, entries[_MISSING], f"{path}: {_MISSING}")
    if missing.dtype != bool or missing.shape != values.shape:
        raise ValueError(
            f"{path}: {_MISSING} must be bool of shape {values.shape}, got {missing.dtype} {missing.shape}"
        )
    return values, missing if missing.any() else None


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str) -> np.ndarray:
    """Return the array of whole numbers in one entry of an archive.

    A damaged entry raises one of ``BAD_ARCHIVE``, which the caller converts.

    Args:
        archive: The archive.
        entry: The entry.
        where: The name of the entry in messages.

    Raises:
        ValueError: The entry is too large, or not an array of whole numbers.
    """
    if entry.file_size > limits.FILE_BYTES:
        raise ValueError(f"{where} unpacks to {entry.file_size:,} bytes, more than {limits.FILE_BYTES:,}: {_TOO_LARGE}")
    with archive.open(entry) as file:
        return parse_array(cast(io.BufferedIOBase, file), entry.file_size, where)


def parse_array(file: io.BufferedIOBase, size: int, where: str) -> np.ndarray:
    """Check the header of an open file, and return its array.

    Args:
        file: The file, at the beginning of the array.
        size: The number of bytes of the file.
        where: The name of the file in messages.

    Raises:
        ValueError: The file is damaged, too large, or not an array of whole numbers.
    """
    header = parse_header(file, size, where)
    expected = size - header.offset
    if expected > limits.FILE_BYTES:
        raise ValueError(f"{where} has {expected:,} bytes, more than {limits.FILE_BYTES:,}: {_TOO_LARGE}")
    content = header.rest + file.read(max(expected - len(header.rest), 0))
    if len(content) != expected:
        raise ValueError(f"{where} is damaged: it ends after {len(content):,} of {expected:,} bytes")
    dtype = header.dtype
    values = np.frombuffer(content, dtype=dtype).reshape(header.shape, order="F" if header.column_major else "C")
    if dtype.kind == "u" and dtype.itemsize == 8 and values.size and int(values.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{where} has numbers above {np.iinfo(np.int64).max}: save the states 0, 1, 2, ...")
    return np.array(values, dtype=dtype.newbyteorder("="), order="C")


def check_rows(shape: tuple[int, ...], path: Path) -> None:
    """Raise ValueError if an array has no rows.

    Args:
        shape: The shape of the array.
        path: The file of the array.
    """
    if not 0 < len(shape) <= 8 or math.prod(shape) == 0:
        raise ValueError(f"{path} must hold rows, an array (n, ...) with n >= 1 and at most 8 axes, got shape {shape}")


def save_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write an array of numbers like ``np.save``, but raise the error of a full disk, which ``np.save`` hides.

    Args:
        file: The file.
        array: The array.
    """
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.tobytes())


def smallest_dtype(x: Tensor) -> Tensor:
    """Return states in the smallest integer dtype that can represent them.

    Args:
        x: States.
    """
    high = int(x.max())
    dtypes = ((255, torch.uint8), (2**15 - 1, torch.int16), (2**31 - 1, torch.int32))
    return x.to(next((dtype for largest, dtype in dtypes if high <= largest), torch.int64))
