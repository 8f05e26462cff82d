"""The format of arrays of whole numbers, ``.npy`` and ``.npz``: in memory, or mapped where a file is large."""

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
from tauleap.data.array.file import MAGIC, check_rows, parse_header, read_array, save_array, smallest
from tauleap.data.array.memory_map import MAPPED_BYTES, MappedRows, scan
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData

_LENGTH = 64


_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class ArrayFormat(Format):
    """Whole numbers of any shape.

    Args:
        sides: The shape of a row.
        low: The value of state 0.
        states: How many states there are.
        values: The value of each state, rising; None where state ``i`` stands for ``low + i``.
        ordered: Whether the numbers are quantities.
        dtype: The type in which arrays are written, such as "uint8".
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

    @staticmethod
    def open(
        path: Path,
        *,
        length: int | None = None,
        array: str | None = None,
        ordinal: bool | None = None,
        states: int | None = None,
    ) -> LoadedData:
        """Return the rows of an array, along its first axis; a large ``.npy`` stays in its file.

        Args:
            path: an ``.npy`` or ``.npz`` file.
            length: of a row, where the array has one axis, a sequence that is cut into rows.
            array: which array of an ``.npz``.
            ordinal: whether the numbers are quantities; by default those of rows with two or more axes are.
            states: how many states there are, the values ``0 .. states-1``; by default they are found in the array.
        """
        if states is not None and not 2 <= states <= limits.STATES:
            raise ValueError(f"states must be between 2 and {limits.STATES:,}, got {states}")
        is_mapped = _is_large(path)
        values, missing = (_map(path, array), None) if is_mapped else read_array(path, array)
        report = [f"{path.name}: {values.dtype} {values.shape}"]
        if values.ndim == 1:
            length = _check.integer("length", _LENGTH if length is None else length, least=1)
            number, rest = divmod(len(values), length)
            if number < 2:
                raise ValueError(
                    f"{path} has one axis of {len(values)} values, too few for two rows of {length}: "
                    "write rows, an array (n, ...), or a smaller length"
                )
            whole = number * length
            values = values[:whole].reshape(number, length)
            missing = None if missing is None else missing[:whole].reshape(number, length)
            report.append(f"cut into {number} rows of {length}" + (f", the last {rest} values left out" * (rest > 0)))
        elif length is not None:
            raise ValueError(f"length is for a sequence with one axis, but {path} has shape {values.shape}")
        low, number, held, line = (
            (0, states, None, f"the values 0..{states - 1} are the states, as given")
            if states is not None
            else _mapped_states(values, path)
            if is_mapped
            else _states(values, missing, ordinal, path)
        )
        report.append(line)
        if number < 2:
            raise ValueError(f"{path} holds nothing but the value {low}: there is nothing to learn")
        if number > limits.STATES:
            raise ValueError(
                f"{path} has {number:,} states, more than {limits.STATES:,}: put the values into fewer bins"
            )
        ordered = values.ndim >= 3 if ordinal is None else ordinal
        form = ArrayFormat(tuple(values.shape[1:]), low, number, held, ordered, values.dtype.name)
        if is_mapped:
            report.append("rows are read from the file when they are needed")
            return LoadedData(Dataset(MappedRows(values, str(path), low, number), number), form, report)
        if missing is not None:
            values = np.where(missing, low if held is None else held[0], values)
            report.append(f"{int(missing.sum())} values are missing")
        x = smallest(torch.from_numpy(form._coded(values, path)))
        return LoadedData(
            Dataset(x, number, missing=None if missing is None else torch.from_numpy(missing)), form, report
        )

    def read(self, path: Path) -> Dataset:
        if self.values is None and _is_large(path):  # as for training: rows are read when they are needed
            mapped = _map(path, None)
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

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.npy"
        with _files.atomic_write(path) as file:
            save_array(file, self._decoded(x))
        return [path]

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
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


def _states(
    values: np.ndarray, missing: np.ndarray | None, ordinal: bool | None, path: Path
) -> tuple[int, int, tuple[int, ...] | None, str]:
    """Return the value of state 0, how many states there are, their values where there are gaps, and a line."""
    known = values if missing is None else values[~missing]
    if known.size == 0:
        raise ValueError(f"{path} has no value that is not missing")
    low, high = int(known.min()), int(known.max())
    ordered = values.ndim >= 3 if ordinal is None else ordinal
    spread = high - low + 1
    distinct = None if ordered or spread <= 2 else np.unique(known)
    if distinct is None or len(distinct) == spread:
        return low, spread, None, f"the values {low}..{high} are the states"
    held = tuple(int(v) for v in distinct)
    return low, len(held), held, f"{len(held)} different values from {low} to {high} are the states"


def _mapped_states(values: np.ndarray, path: Path) -> tuple[int, int, None, str]:
    """Return the same for a mapped file, whose values are not recoded: gaps between them are states as well."""
    low, high, is_whole = scan(values)
    if high - low >= limits.STATES:
        raise ValueError(
            f"{path} holds values from {low} to {high}, more than {limits.STATES:,} states: save them numbered, "
            "numpy.unique(x, return_inverse=True)[1], or in fewer bins"
        )
    where = "" if is_whole else ", by 64 blocks of the file; other rows are checked when they are read"
    return low, high - low + 1, None, f"the values {low}..{high} are the states{where}"


def _is_large(path: Path) -> bool:
    """Return whether a file is an array by itself that is too large to be read as a whole."""
    if not path.is_file() or path.stat().st_size <= MAPPED_BYTES:
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _map(path: Path, name: str | None) -> np.ndarray:
    """Return the array of an ``.npy`` file, mapped: nothing but the header is read."""
    if name is not None:
        raise ValueError(f"{path} holds one array without a name: leave the name {name!r} out")
    with path.open("rb") as file:
        header = parse_header(file, path.stat().st_size, str(path))
    check_rows(header.shape, path)
    if header.column_major and len(header.shape) > 1:
        raise ValueError(
            f"{path} holds its columns one after the other, so that a row cannot be read by itself: save "
            "numpy.ascontiguousarray(x)"
        )
    if math.prod(header.shape[1:]) > limits.ROW_VALUES:
        raise ValueError(
            f"{path} has rows of {math.prod(header.shape[1:]):,} values, more than {limits.ROW_VALUES:,}: cut them"
        )
    return np.memmap(path, dtype=header.dtype, mode="r", offset=header.offset, shape=header.shape)
