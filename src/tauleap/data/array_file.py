"""Arrays of whole numbers in ``.npy`` and ``.npz`` files.

The header is read first, by itself: its type must be a kind of whole number (so nothing is unpickled), and its shape
must be what the file has bytes for, so that memory is taken only for what is there.
"""

from __future__ import annotations

import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from tauleap import _files
from tauleap.data import limits, windows
from tauleap.data.array_header import parse_header
from tauleap.data.arrays import Dataset
from tauleap.data.form import Form
from tauleap.data.mapped import MappedRows

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
class ArrayForm(Form):
    """Whole numbers of any shape; state ``i`` stands for ``values[i]``, or for ``low + i`` where values is None."""

    kind: ClassVar[str] = "array"
    sides: tuple[int, ...]
    low: int
    states: int
    values: tuple[int, ...] | None
    ordered: bool
    dtype: str

    def __post_init__(self) -> None:
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (*self.sides, self.low, self.states))
        if not isinstance(self.sides, tuple) or not whole or not self.sides or min(self.sides) < 1:
            raise ValueError(f"the sides of an array must be whole numbers >= 1, got {self.sides!r}")
        if not 2 <= self.states <= limits.STATES or not isinstance(self.ordered, bool):
            raise ValueError(f"an array must have 2..{limits.STATES} states, got {self.states!r}")
        if self.values is not None:
            values = self.values
            if not isinstance(values, tuple) or any(isinstance(v, bool) or not isinstance(v, int) for v in values):
                raise ValueError("the values of an array must be whole numbers")
            if len(values) != self.states or list(values) != sorted(set(values)):
                raise ValueError(f"the values of an array must be {self.states} whole numbers, rising")
        if self.dtype not in _TYPES:
            raise ValueError(f"the dtype of an array must be one of {', '.join(_TYPES)}, got {self.dtype!r}")
        kinds = np.iinfo(self.dtype) if self.dtype != "bool" else None
        low, high = (self.low, self.low + self.states - 1) if self.values is None else (self.values[0], self.values[-1])
        if not (0 if kinds is None else kinds.min) <= low <= high <= (1 if kinds is None else kinds.max):
            raise ValueError(f"{self.dtype} cannot hold values from {low} to {high}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sides

    @property
    def num_states(self) -> int:
        return self.states

    @property
    def ordinal(self) -> bool:
        return self.ordered

    def read(self, path: Path) -> Dataset:
        from tauleap.data.array_open import is_large, map_array

        if self.values is None and is_large(path):  # as for training: rows are read when they are needed
            mapped = map_array(path, None)
            if mapped.ndim == 1 and len(self.sides) == 1:
                mapped = mapped[: len(mapped) // self.sides[0] * self.sides[0]].reshape(-1, self.sides[0])
            if mapped.shape[1:] != self.sides:
                raise ValueError(f"{path} must hold rows of shape {self.sides}, got an array of shape {mapped.shape}")
            return Dataset(MappedRows(mapped, str(path), self.low, self.states), self.states)
        array, missing = read_array(path)
        if array.ndim == 1 and len(self.sides) == 1 and missing is None:
            flat, absent = windows.padded(torch.from_numpy(self._coded(array, path)), self.sides[0])
            return Dataset(smallest(flat), self.states, missing=absent if bool(absent.any()) else None)
        if array.shape[1:] != self.sides:
            raise ValueError(f"{path} must hold rows of shape {self.sides}, got an array of shape {array.shape}")
        if missing is not None:  # what is not known may be anything
            array = np.where(missing, self.low if self.values is None else self.values[0], array)
        x = smallest(torch.from_numpy(self._coded(array, path)))
        return Dataset(x, self.states, missing=None if missing is None else torch.from_numpy(missing))

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.npy"
        with _files.replacing(path) as file:
            save_array(file, self._decoded(x))
        return [path]

    def show(self, x: Tensor, n: int) -> str:
        return "\n".join(np.array2string(row, threshold=100, max_line_width=110) for row in self._decoded(x[:n]))

    def _coded(self, array: np.ndarray, path: Path) -> np.ndarray:
        if self.values is None:
            states = None
            wrong = (array < self.low) | (array > self.low + self.states - 1)
            wanted = f"{self.low}..{self.low + self.states - 1}"
        else:
            known = np.asarray(self.values)
            states = np.searchsorted(known, array).clip(max=len(known) - 1)
            wrong, wanted = known[states] != array, f"one of {len(known)} values from {known[0]} to {known[-1]}"
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(f"{path} holds {array[at]} at index {at}; what the model knows is {wanted}")
        return array.astype(np.int64) - self.low if states is None else states

    def _decoded(self, x: Tensor) -> np.ndarray:
        states = self.check(x).numpy()
        values = states + self.low if self.values is None else np.asarray(self.values)[states]
        return values.astype(self.dtype)


_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def read_array(path: Path, name: str | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """The array of whole numbers in a file, and the array ``missing`` beside it in an ``.npz``, if there is one."""
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
    """Those of the named arrays of whole numbers that an ``.npz`` has; no others are looked at."""
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
    """The array of whole numbers in one entry of an archive, which messages call ``where``.

    What an archive that is damaged there raises is one of ``BAD_ARCHIVE``.
    """
    if entry.file_size > limits.FILE_BYTES:
        raise ValueError(f"{where} unpacks to {entry.file_size:,} bytes, more than {limits.FILE_BYTES:,}: {_TOO_LARGE}")
    with archive.open(entry) as file:
        return parse_array(cast(io.BufferedIOBase, file), entry.file_size, where)


def parse_array(file: io.BufferedIOBase, size: int, where: str) -> np.ndarray:
    """Return the array of an open file of ``size`` bytes, called ``where`` in messages; its header is checked first."""
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
    """Refuse an array that has no rows.

    Args:
        shape: of the array.
        path: its file.
    """
    if not 0 < len(shape) <= 8 or math.prod(shape) == 0:
        raise ValueError(f"{path} must hold rows, an array (n, ...) with n >= 1, got shape {shape}")


def save_array(file: IO[bytes], array: np.ndarray) -> None:
    """Write an array of numbers as ``np.save`` does, which hides the error of a full disk."""
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.tobytes())


def smallest(x: Tensor) -> Tensor:
    """In the smallest type that holds the states: data is kept in memory as a whole."""
    high = int(x.max())
    kinds = ((255, torch.uint8), (2**15 - 1, torch.int16), (2**31 - 1, torch.int32))
    return x.to(next((dtype for most, dtype in kinds if high <= most), torch.int64))
