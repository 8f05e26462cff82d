"""Data that is in memory already: arrays, lists, texts and pandas frames, as rows of states and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tauleap.data import limits
from tauleap.data.array.memory_map import MappedRows, is_large_map, scan
from tauleap.data.columns import from_frame
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.observed_cells import known_cells
from tauleap.data.table.format import TableFormat
from tauleap.data.table.frame import is_frame, open_frame, unknown
from tauleap.data.text import TextFormat


@dataclass(frozen=True)
class Kind:
    """The type in which data was given, so that samples have the same type.

    Args:
        name: "tensor", "frame" or "texts". Default: "tensor".
    """

    name: Literal["tensor", "frame", "texts"] = "tensor"

    def __post_init__(self) -> None:
        if self.name not in ("tensor", "frame", "texts"):
            raise ValueError(f"data is given as tensor, frame or texts, got {self.name!r}")


def as_dataset(data: Any, *, num_states: int | None = None) -> tuple[Dataset, Format | None, Kind]:
    """Return rows of states, their format where they have one, and the type in which they were given.

    >>> rows, form, kind = as_dataset(["abba", "baab"])
    >>> rows.x.tolist(), form.texts(rows.x), kind.name
    ([[0, 1, 1, 0], [1, 0, 0, 1]], ['abba', 'baab'], 'texts')

    Args:
        data: An array, a tensor, a frame, a list of texts, a Dataset or LoadedData.
        num_states: How many states there are, for arrays and tensors. Default: found in the data.
    """
    if isinstance(data, LoadedData):
        # A table in a file has names and values, which states do not have: its rows in Python are a frame.
        return data.dataset, data.form, Kind("frame") if isinstance(data.form, TableFormat) else Kind()
    if isinstance(data, Dataset):
        return data, None, Kind()
    if is_frame(data):
        return as_dataset(open_frame(data))
    if _is_texts(data):
        form = TextFormat(len(data[0]), "".join(sorted(set().union(*data))))
        return _encoded_texts(data, form), form, Kind("texts")
    return _encoded_array(data, num_states), None, Kind()


def read(data: Any, *, form: Format | None, num_states: int, load: bool = True) -> Dataset:
    """Return data of the same type again, in the coding of a format.

    Args:
        data: The data.
        form: The format; None for states.
        num_states: How many states there are.
        load: Whether rows that stay in a file are read into memory.
    """
    if isinstance(data, LoadedData | Dataset):
        data = data.dataset if isinstance(data, LoadedData) else data
        # The rows of a table may have been encoded before the bins were fitted on those of training.
        data = data if form is None else form.encode_again(data)
        return _loaded(data) if load else data
    if is_frame(data):
        if not isinstance(form, TableFormat):
            raise TypeError("x is a frame, but the model was not fitted on a table: give states as whole numbers")
        return _with_warning(*form.encode(from_frame(data)))
    if form is not None and isinstance(data, str | os.PathLike):
        return _with_warning(*form.read_with_report(Path(os.fspath(data))))
    if _is_texts(data):
        if not isinstance(form, TextFormat):
            raise TypeError("x is text, but the model was not fitted on texts: give states as whole numbers")
        return _encoded_texts(list(data), form)
    return _encoded_array(data, num_states)


def _loaded(data: Dataset) -> Dataset:
    """Return the rows in memory: a mask of them, and what becomes of them, are too."""
    return data if isinstance(data.x, Tensor) else replace(data, x=data.in_memory())


def _with_warning(data: Dataset, problems: list[str]) -> Dataset:
    if problems:
        warnings.warn("; ".join(problems), stacklevel=4)
    return data


def restore(x: Tensor, kind: Kind, form: Format | None, *, seed: int = 0) -> Any:
    """Return states as the type in which the data was given.

    Args:
        x: States.
        kind: The type.
        form: The format.
        seed: The seed of values that are drawn, where a state stands for many values. Default: 0.
    """
    if kind.name == "texts" and isinstance(form, TextFormat):
        return form.texts(x)
    if kind.name == "frame" and isinstance(form, TableFormat):
        return form.frame(x, seed=seed)
    return x


def restore_completed(
    x: Tensor, data: Dataset, observed: Any, kind: Kind, form: Format | None, *, seed: int = 0
) -> Any:
    """Return completed rows as the type in which they were given; the given cells of a table are as they were.

    Args:
        x: States, (n, *shape).
        data: The rows that were completed.
        observed: The values that are given, as :func:`tauleap.data.observed_cells.known_cells` takes them.
        kind: The type of samples, for rows that are not a table.
        form: The format.
        seed: The seed of values that are drawn, where a state stands for many values. Default: 0.
    """
    if data.source is None or not isinstance(form, TableFormat):
        return restore(x, kind, form, seed=seed)
    chosen = known_cells(replace(data, missing=None), observed, form)
    return form.completed(x, chosen, data.source, seed=seed)


def _is_texts(data: Any) -> bool:
    return isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(row, str) for row in data)


def _encoded_array(data: Any, num_states: int | None) -> Dataset:
    if isinstance(data, str | bytes | os.PathLike):
        raise TypeError(f"data is a name, {data!r}: write tauleap.data.open_data({data!r}) to read what it names")
    if is_large_map(data):
        return _mapped(data, num_states)
    values, missing = _whole_numbers(data)
    if values.ndim < 2 or values.numel() == 0:
        raise ValueError(f"data must be one or more rows, (n, *shape) with n >= 1, got shape {tuple(values.shape)}")
    lowest, highest = (int(value) for value in torch.aminmax(values))
    if lowest < 0:
        raise ValueError(f"data must hold states 0, 1, 2, ..., got {lowest}: subtract the smallest value")
    return Dataset(values, _number_of_states(num_states, highest), missing=missing)


def _mapped(data: np.memmap, num_states: int | None) -> Dataset:
    """Return rows that stay in the file that the user has mapped."""
    if data.ndim < 2:
        raise ValueError(f"data must be one or more rows, (n, *shape) with n >= 1, got shape {data.shape}")
    lowest, highest = (0, 0) if num_states is not None else scan(data)[:2]
    if lowest < 0:
        raise ValueError(f"data must hold states 0, 1, 2, ..., got {lowest}: subtract the smallest value")
    states = _number_of_states(num_states, highest)
    return Dataset(MappedRows(data, str(data.filename or "data"), 0, states), states)


def _number_of_states(given: int | None, highest: int) -> int:
    number = max(2, highest + 1) if given is None else given
    if number > limits.STATES:
        raise ValueError(
            f"data has {number:,} states, more than {limits.STATES:,}: they count from 0 to the largest value, so "
            "number those that occur, numpy.unique(x, return_inverse=True), or put them into fewer bins"
        )
    return number


def _whole_numbers(data: Any) -> tuple[Tensor, Tensor | None]:
    """int states, and which of them are missing (0 there), if any."""
    hidden: np.ndarray | None = None
    if isinstance(data, Tensor):
        array = data.detach().cpu()
        if not array.is_floating_point() and not array.is_complex():
            return (array.to(torch.uint8) if array.dtype == torch.bool else array), None
        array = array.numpy()
    elif isinstance(data, np.ma.MaskedArray):
        array, hidden = np.asarray(data.filled(0)), np.ma.getmaskarray(data)
    else:
        try:
            array = np.asarray(data)
        except ValueError as error:
            raise ValueError("data must be rows of one length, as an array of whole numbers") from error
    if array.dtype.kind == "O":
        gone = np.array([unknown(value) for value in array.flat], dtype=bool).reshape(array.shape)
        try:
            array = np.where(gone, np.nan, array).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"data must hold whole numbers, or None where a value is missing: {error}") from error
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        gone = np.isnan(array)
        filled = np.where(gone, 0, array)
        if not np.isfinite(filled).all() or (filled != np.floor(filled)).any() or (np.abs(filled) >= 2**31).any():
            raise TypeError("data must hold whole numbers, NaN where a value is missing: bin what is continuous first")
        array, hidden = filled.astype(np.int64), gone if hidden is None else hidden | gone
    if array.dtype.kind not in "iub":
        raise TypeError(f"data must be an array of whole numbers, got {type(data).__name__} of {array.dtype}")
    if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"data must hold states 0, 1, 2, ..., got {array.max()}: number those that occur")
    small = array.dtype.kind == "b" or (array.min(initial=0) >= 0 and array.max(initial=0) < 256)
    array = array.astype(np.uint8 if small else np.int64)
    missing = None if hidden is None or not hidden.any() else torch.from_numpy(np.ascontiguousarray(hidden))
    return torch.from_numpy(np.ascontiguousarray(array)), missing


def _encoded_texts(texts: Sequence[str], form: TextFormat) -> Dataset:
    known = {character: code for code, character in enumerate(form.alphabet or "")}
    rows = []
    for number, text in enumerate(texts):
        if len(text) != form.length:
            raise ValueError(f"texts must have one length, {form.length}, but text {number} has {len(text)}")
        unknown = [character for character in text if character not in known]
        if unknown:
            raise ValueError(f"text {number} has {unknown[0]!r}, which is no character that the model knows")
        rows.append([known[character] for character in text])
    return Dataset(torch.tensor(rows, dtype=torch.int32), form.num_states)
