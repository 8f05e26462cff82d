"""An array of whole numbers in a file, opened as rows of states: in memory, or mapped where the file is large."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from tauleap import _check
from tauleap.data import limits
from tauleap.data.array_file import ArrayForm, check_rows, read_array, smallest
from tauleap.data.array_header import MAGIC, parse_header
from tauleap.data.arrays import Dataset
from tauleap.data.form import Opened
from tauleap.data.mapped import MAPPED_BYTES, MappedRows, scan

_LENGTH = 64


def open_array(
    path: Path,
    *,
    length: int | None = None,
    array: str | None = None,
    ordinal: bool | None = None,
    states: int | None = None,
) -> Opened:
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
    is_mapped = is_large(path)
    values, missing = (map_array(path, array), None) if is_mapped else read_array(path, array)
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
        raise ValueError(f"{path} has {number:,} states, more than {limits.STATES:,}: put the values into fewer bins")
    ordered = values.ndim >= 3 if ordinal is None else ordinal
    form = ArrayForm(tuple(values.shape[1:]), low, number, held, ordered, values.dtype.name)
    if is_mapped:
        report.append("rows are read from the file when they are needed")
        return Opened(Dataset(MappedRows(values, str(path), low, number), number), form, report)
    if missing is not None:
        values = np.where(missing, low if held is None else held[0], values)
        report.append(f"{int(missing.sum())} values are missing")
    x = smallest(torch.from_numpy(form._coded(values, path)))
    return Opened(Dataset(x, number, missing=None if missing is None else torch.from_numpy(missing)), form, report)


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


def is_large(path: Path) -> bool:
    """Return whether a file is an array by itself that is too large to be read as a whole.

    Args:
        path: the file.
    """
    if not path.is_file() or path.stat().st_size <= MAPPED_BYTES:
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def map_array(path: Path, name: str | None) -> np.ndarray:
    """Return the array of an ``.npy`` file, mapped: nothing but the header is read.

    Args:
        path: the file.
        name: must be None, since the array has no name.
    """
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
