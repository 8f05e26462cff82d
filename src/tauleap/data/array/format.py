"""The format of arrays of whole numbers, ``.npy`` and ``.npz``; a large ``.npy`` is memory-mapped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tauleap import _check, _files
from tauleap.data import limits, windows
from tauleap.data.array.file import MAGIC, check_rows, parse_header, read_array, save_array, smallest_dtype
from tauleap.data.array.memory_map import MAPPED_BYTES, MappedRows, scan
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData

_DEFAULT_LENGTH = 64  # of the rows into which an array with one axis is cut
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class ArrayFormat(Format):
    """Read and write rows of whole numbers of any shape.

    Args:
        sides: The shape of a row.
        low: The value of state 0.
        states: The number of states, >= 2.
        values: The value of each state in increasing order; None if state ``i`` has the value ``low + i``.
        ordered: Whether the numbers are quantities rather than codes without an order.
        dtype: The integer or bool dtype of written arrays, such as "uint8".
    """

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
                raise ValueError(f"the values of an array must be whole numbers, got {values!r:.60}")
            if len(values) != self.states or list(values) != sorted(set(values)):
                raise ValueError(
                    f"the values of an array must be {self.states} different whole numbers in increasing order"
                )
        if self.dtype not in _DTYPES:
            raise ValueError(f"the dtype of an array must be one of {', '.join(_DTYPES)}, got {self.dtype!r}")
        limit = np.iinfo(self.dtype) if self.dtype != "bool" else None
        low, high = (self.low, self.low + self.states - 1) if self.values is None else (self.values[0], self.values[-1])
        if not (0 if limit is None else limit.min) <= low <= high <= (1 if limit is None else limit.max):
            raise ValueError(f"the dtype {self.dtype} cannot represent the values {low} to {high}: use a larger one")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sides

    @property
    def num_states(self) -> int:
        return self.states

    @property
    def ordinal(self) -> bool:
        return self.ordered

    @staticmethod
    def open(
        path: Path,
        *,
        length: int | None = None,
        array: str | None = None,
        ordinal: bool | None = None,
        states: int | None = None,
    ) -> LoadedData:
        """Return the rows of an array along its first axis; those of a large ``.npy`` stay in the file.

        Args:
            path: An ``.npy`` or ``.npz`` file.
            length: The row length into which an array with one axis is cut, >= 1. Default: 64.
            array: The name of the array in an ``.npz``. Default: a common name, or the only one.
            ordinal: Whether the numbers are quantities rather than codes without an order. Default: True if rows have
                two or more axes.
            states: The number of states, the values ``0 .. states-1``. Default: found in the array.

        Raises:
            ValueError: The file is damaged, or its values cannot be states.
        """
        if states is not None and not 2 <= states <= limits.STATES:
            raise ValueError(f"states must be between 2 and {limits.STATES:,}, got {states}")
        is_mapped = _is_large(path)
        values, missing = (_map(path, array), None) if is_mapped else read_array(path, array)
        report = [f"{path.name}: {values.dtype} {values.shape}"]
        if values.ndim == 1:
            length = _check.integer("length", _DEFAULT_LENGTH if length is None else length, least=1)
            num_rows, rest = divmod(len(values), length)
            if num_rows < 2:
                raise ValueError(
                    f"{path} has one axis of {len(values)} values, too few for two rows of {length}: "
                    "save an array (n, ...) of rows, or write a smaller length"
                )
            used = num_rows * length
            values = values[:used].reshape(num_rows, length)
            missing = None if missing is None else missing[:used].reshape(num_rows, length)
            report.append(f"cut into {num_rows} rows of {length}" + (f", the last {rest} values left out" * (rest > 0)))
        elif length is not None:
            raise ValueError(f"length is for an array with one axis, but {path} has shape {values.shape}: omit length")
        low, num_states, gap_values, line = (
            (0, states, None, f"the values 0..{states - 1} are the states, as states={states} says")
            if states is not None
            else _mapped_states(values, path)
            if is_mapped
            else _states(values, missing, ordinal, path)
        )
        report.append(line)
        if num_states < 2:
            raise ValueError(f"{path} contains only the value {low}: give an array with two or more different values")
        if num_states > limits.STATES:
            raise ValueError(
                f"{path} has {num_states:,} states, more than {limits.STATES:,}: put the values into fewer bins"
            )
        ordered = values.ndim >= 3 if ordinal is None else ordinal
        form = ArrayFormat(tuple(values.shape[1:]), low, num_states, gap_values, ordered, values.dtype.name)
        if is_mapped:
            report.append("rows stay in the file and are read per batch")
            return LoadedData(Dataset(MappedRows(values, str(path), low, num_states), num_states), form, report)
        if missing is not None:
            values = np.where(missing, low if gap_values is None else gap_values[0], values)
            report.append(f"{int(missing.sum())} values are missing")
        x = smallest_dtype(torch.from_numpy(form._encode(values, path)))
        return LoadedData(
            Dataset(x, num_states, missing=None if missing is None else torch.from_numpy(missing)), form, report
        )

    def read(self, path: Path) -> Dataset:
        if self.values is None and _is_large(path):  # As for training, the rows stay in the file.
            mapped = _map(path, None)
            if mapped.ndim == 1 and len(self.sides) == 1:
                mapped = mapped[: len(mapped) // self.sides[0] * self.sides[0]].reshape(-1, self.sides[0])
            if mapped.shape[1:] != self.sides:
                raise ValueError(f"{path} must hold rows of shape {self.sides}, got an array of shape {mapped.shape}")
            return Dataset(MappedRows(mapped, str(path), self.low, self.states), self.states)
        array, missing = read_array(path)
        if array.ndim == 1 and len(self.sides) == 1 and missing is None:
            rows, padding = windows.pad(torch.from_numpy(self._encode(array, path)), self.sides[0])
            return Dataset(smallest_dtype(rows), self.states, missing=padding if bool(padding.any()) else None)
        if array.shape[1:] != self.sides:
            raise ValueError(f"{path} must hold rows of shape {self.sides}, got an array of shape {array.shape}")
        if missing is not None:  # A missing value may be out of range.
            array = np.where(missing, self.low if self.values is None else self.values[0], array)
        x = smallest_dtype(torch.from_numpy(self._encode(array, path)))
        return Dataset(x, self.states, missing=None if missing is None else torch.from_numpy(missing))

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.npy"
        with _files.atomic_write(path) as file:
            save_array(file, self._decode(x))
        return [path]

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        return "\n".join(np.array2string(row, threshold=100, max_line_width=110) for row in self._decode(x[:n]))

    def _encode(self, array: np.ndarray, path: Path) -> np.ndarray:
        if self.values is None:
            states = None
            wrong = (array < self.low) | (array > self.low + self.states - 1)
            accepted = f"{self.low}..{self.low + self.states - 1}"
        else:
            values = np.asarray(self.values)
            states = np.searchsorted(values, array).clip(max=len(values) - 1)
            wrong = values[states] != array
            accepted = f"{len(values)} values of the training data from {values[0]} to {values[-1]}"
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(f"{path} has the value {array[at]} at index {at}; accepted are {accepted}")
        return array.astype(np.int64) - self.low if states is None else states

    def _decode(self, x: Tensor) -> np.ndarray:
        states = self.check(x).numpy()
        values = states + self.low if self.values is None else np.asarray(self.values)[states]
        return values.astype(self.dtype)


def _states(
    values: np.ndarray, missing: np.ndarray | None, ordinal: bool | None, path: Path
) -> tuple[int, int, tuple[int, ...] | None, str]:
    """Return the value of state 0, the number of states, their values if these have gaps, and a line for the report."""
    known = values if missing is None else values[~missing]
    if known.size == 0:
        raise ValueError(f"{path} has no observed value: set missing to false for one value or more")
    low, high = int(known.min()), int(known.max())
    ordered = values.ndim >= 3 if ordinal is None else ordinal
    span = high - low + 1
    distinct = None if ordered or span <= 2 else np.unique(known)
    if distinct is None or len(distinct) == span:
        return low, span, None, f"the values {low}..{high} are the states"
    gap_values = tuple(int(v) for v in distinct)
    return low, len(gap_values), gap_values, f"{len(gap_values)} different values from {low} to {high} are the states"


def _mapped_states(values: np.ndarray, path: Path) -> tuple[int, int, None, str]:
    """Return what ``_states`` returns, for a memory-mapped file; every number between two of its values is a state."""
    low, high, is_whole = scan(values)
    if high - low >= limits.STATES:
        raise ValueError(
            f"{path} has values from {low} to {high}, more than {limits.STATES:,} states: renumber them with "
            "numpy.unique(x, return_inverse=True)[1], or use fewer bins"
        )
    where = "" if is_whole else ", found in 64 blocks of the file; other rows are checked when they are read"
    return low, high - low + 1, None, f"the values {low}..{high} are the states{where}"


def _is_large(path: Path) -> bool:
    """Return whether a file is an ``.npy`` array that is too large to be read as a whole."""
    if not path.is_file() or path.stat().st_size <= MAPPED_BYTES:
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _map(path: Path, name: str | None) -> np.ndarray:
    """Return the array of an ``.npy`` file as a memory map; only the header is read."""
    if name is not None:
        raise ValueError(f"{path} contains one array without a name: omit array={name!r}")
    with path.open("rb") as file:
        header = parse_header(file, path.stat().st_size, str(path))
    check_rows(header.shape, path)
    if header.column_major and len(header.shape) > 1:
        raise ValueError(
            f"{path} stores columns contiguously (Fortran order), so single rows cannot be read: save "
            "numpy.ascontiguousarray(x)"
        )
    if math.prod(header.shape[1:]) > limits.ROW_VALUES:
        raise ValueError(
            f"{path} has rows of {math.prod(header.shape[1:]):,} values, more than {limits.ROW_VALUES:,}: cut them "
            "into shorter rows"
        )
    return np.memmap(path, dtype=header.dtype, mode="r", offset=header.offset, shape=header.shape)
