"""Arrays, lists, texts and pandas frames in memory, converted to rows of states and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tauleap.data import limits
from tauleap.data.array.memory_map import MappedRows, is_large_map, scan
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.observed_cells import known_cells
from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.sequences.opening import open_texts
from tauleap.data.sequences.rows import SequenceRows
from tauleap.data.sequences.tokens import Items
from tauleap.data.table.columns import from_frame
from tauleap.data.table.format import TableFormat
from tauleap.data.table.frame import is_frame, open_frame, unknown
from tauleap.data.text import TextFormat


@dataclass(frozen=True)
class Kind:
    """Hold the type in which data was given, so that samples have the same type.

    Args:
        name: "tensor", "frame" or "texts". Default: "tensor".
    """

    name: Literal["tensor", "frame", "texts"] = "tensor"

    def __post_init__(self) -> None:
        if self.name not in ("tensor", "frame", "texts"):
            raise ValueError(f"the type of data in memory must be tensor, frame or texts, got {self.name!r}")


def as_dataset(data: Any, *, num_states: int | None = None) -> tuple[Dataset, Format | None, Kind]:
    """Return data as rows of states, with its format (or None) and the type in which it was given.

    >>> rows, form, kind = as_dataset(["abba", "baab"])
    >>> rows.x.tolist(), form.texts(rows.x), kind.name
    ([[0, 1, 1, 0], [1, 0, 0, 1]], ['abba', 'baab'], 'texts')

    Args:
        data: An array, a tensor, a frame, a list of texts, a Dataset or LoadedData.
        num_states: The number of states of an array or tensor. Default: the largest value plus 1, at least 2.

    Raises:
        TypeError: The data is not an array of whole numbers, a frame or texts.
        ValueError: Its shape or its values cannot be used.
    """
    if isinstance(data, LoadedData):
        # States lack the column names and values of a table, so its rows are returned as a frame.
        kinds: dict[type, Literal["frame", "texts"]] = {TableFormat: "frame", SequenceFormat: "texts"}
        return data.dataset, data.form, Kind(kinds.get(type(data.form), "tensor"))
    if isinstance(data, Dataset):
        return data, None, Kind()
    if is_frame(data):
        return as_dataset(open_frame(data))
    if has_different_lengths(data):
        return as_dataset(open_texts(data))
    if _is_texts(data):
        form = TextFormat(len(data[0]), "".join(sorted(set().union(*data))))
        return _encoded_texts(data, form), form, Kind("texts")
    return _encoded_array(data, num_states), None, Kind()


def has_different_lengths(data: Any) -> bool:
    """Return whether data is a list of texts or token lists that an array cannot hold.

    >>> has_different_lengths(["ab", "a"]), has_different_lengths([[1], [1, 2]]), has_different_lengths(["ab", "cd"])
    (True, True, False)

    Args:
        data: Data of any type.
    """
    if not isinstance(data, list | tuple) or not data:
        return False
    if not _is_texts(data) and not _is_token_lists(data):
        return False
    # Rows of equal length are an array or a text of fixed length, as a list of lists of whole numbers is.
    return len({len(row) for row in data}) > 1 or (not isinstance(data[0], str) and any(map(_has_text, data)))


def read(data: Any, *, form: Format | None, num_states: int, load: bool = True, incomplete: bool = False) -> Dataset:
    """Return further data as rows of states in the encoding of a format.

    Args:
        data: Data of any type that :func:`as_dataset` takes, or the path of a file of this format.
        form: The format; None if the data are states.
        num_states: The number of states.
        load: Whether rows that stay in a file are read into memory. Default: True.
        incomplete: Whether the rows are to be completed, so that rows of symbols have an open end. Default: False.

    Raises:
        TypeError: The model was not trained on data of this type.
        ValueError: A value is not in the encoding.
    """
    if isinstance(data, LoadedData | Dataset):
        data = data.dataset if isinstance(data, LoadedData) else data
        # The rows of a table may have been encoded before the bins were fitted to the training rows.
        data = data if form is None else form.encode_again(data)
        return _loaded(data) if load else data
    if is_frame(data):
        if not isinstance(form, TableFormat):
            raise TypeError("x is a frame, but the model was not trained on a table: give an array of whole numbers")
        return _with_warning(*form.encode(from_frame(data)))
    if form is not None and isinstance(data, str | os.PathLike):
        path = Path(os.fspath(data))
        return _with_warning(*(form.read_incomplete(path) if incomplete else form.read_with_report(path)))
    if isinstance(form, TableFormat) and _has_named_values(data):
        raise TypeError(
            f"x is a {type(data).__name__}, and the rows of the model are those of a table: give a frame, such as "
            "frame.iloc[[0]] or pandas.DataFrame([row])"
        )
    if isinstance(form, SequenceFormat):
        # A list of lists of whole numbers is a list of states, unless the rows themselves are such lists.
        if _is_texts(data) or (isinstance(form.tokens, Items) and _is_token_lists(data)):
            return form.encode_texts(data, incomplete=incomplete)
        return _encoded_array(data, num_states, end=form.end)
    if _is_texts(data):
        if not isinstance(form, TextFormat):
            raise TypeError(
                "x is a list of texts, but the model was not trained on texts: give an array of whole numbers"
            )
        return _encoded_texts(list(data), form)
    return _encoded_array(data, num_states)


def _loaded(data: Dataset) -> Dataset:
    """Return a dataset whose rows are in memory, since masks and completed rows must be as well."""
    return data if isinstance(data.x, Tensor) else replace(data, x=data.in_memory())


def _with_warning(data: Dataset, problems: list[str]) -> Dataset:
    if problems:
        warnings.warn("; ".join(problems), stacklevel=4)
    return data


def restore(x: Tensor, kind: Kind, form: Format | None, *, seed: int = 0) -> Any:
    """Return states in the type in which the training data was given.

    Args:
        x: States, (n, *shape).
        kind: The type.
        form: The format, or None.
        seed: The seed of values that are sampled where a state covers a range of values. Default: 0.
    """
    if kind.name == "texts" and isinstance(form, TextFormat | SequenceFormat):
        return form.texts(x)
    if kind.name == "frame" and isinstance(form, TableFormat):
        return form.frame(x, seed=seed)
    return x


def restore_completed(
    x: Tensor, data: Dataset, observed: Any, kind: Kind, form: Format | None, *, seed: int = 0
) -> Any:
    """Return completed rows in the type in which they were given; observed cells of a table are unchanged.

    Args:
        x: States, (n, *shape).
        data: The rows that were completed.
        observed: The observed values, as :func:`tauleap.data.observed_cells.known_cells` takes them.
        kind: The type of samples, for rows that are not a table.
        form: The format, or None.
        seed: The seed of values that are sampled where a state covers a range of values. Default: 0.
    """
    if data.source is None or not isinstance(form, TableFormat):
        return restore(x, kind, form, seed=seed)
    chosen = known_cells(replace(data, missing=None), observed, form)
    return form.completed(x, chosen, data.source, seed=seed)


def _is_texts(data: Any) -> bool:
    return isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(row, str) for row in data)


def _is_token_lists(data: Any) -> bool:
    return (
        isinstance(data, list | tuple)
        and len(data) > 0
        and all(isinstance(row, list | tuple) for row in data)
        and all(type(item) in (str, int) for row in data for item in row)
    )


def _has_named_values(data: Any) -> bool:
    """Return whether data is a row of a table, such as a dict or a pandas Series, or a list of them."""
    first = data[0] if isinstance(data, list | tuple) and data else data
    return isinstance(first, Mapping) or (hasattr(first, "index") and hasattr(first, "iloc"))


def _has_text(row: Sequence[object]) -> bool:
    return any(isinstance(item, str) for item in row)


def _encoded_array(data: Any, num_states: int | None, *, end: int | None = None) -> Dataset:
    if isinstance(data, str | bytes | os.PathLike):
        raise TypeError(f"data is a path, {data!r}: write tauleap.data.open_data({data!r}) to read the file")
    if is_large_map(data):
        return _mapped(data, num_states)
    values, missing = _whole_numbers(data)
    if values.ndim < 2 or values.numel() == 0:
        raise ValueError(f"data must be one or more rows, (n, *shape) with n >= 1, got shape {tuple(values.shape)}")
    lowest, highest = (int(value) for value in torch.aminmax(values))
    if lowest < 0:
        raise ValueError(f"data must hold states 0, 1, 2, ..., got {lowest}: subtract the smallest value")
    sequences = None if end is None else SequenceRows(end)
    return Dataset(values, _number_of_states(num_states, highest), missing=missing, sequences=sequences)


def _mapped(data: np.memmap, num_states: int | None) -> Dataset:
    """Return rows that stay in the file of a memory map."""
    if data.ndim < 2:
        raise ValueError(f"data must be one or more rows, (n, *shape) with n >= 1, got shape {data.shape}")
    lowest, highest = (0, 0) if num_states is not None else scan(data)[:2]
    if lowest < 0:
        raise ValueError(f"data must hold states 0, 1, 2, ..., got {lowest}: subtract the smallest value")
    states = _number_of_states(num_states, highest)
    return Dataset(MappedRows(data, str(data.filename or "data"), 0, states), states)


def _number_of_states(num_states: int | None, highest: int) -> int:
    number = max(2, highest + 1) if num_states is None else num_states
    if number > limits.STATES:
        raise ValueError(
            f"data has {number:,} states, more than {limits.STATES:,}, since every number up to the largest value is a "
            "state: renumber the values with numpy.unique(x, return_inverse=True)[1], or use fewer bins"
        )
    return number


def _whole_numbers(data: Any) -> tuple[Tensor, Tensor | None]:
    """Return integer states, and a mask of missing values, whose state is 0, or None."""
    masked: np.ndarray | None = None
    if isinstance(data, Tensor):
        array = data.detach().cpu()
        if not array.is_floating_point() and not array.is_complex():
            return (array.to(torch.uint8) if array.dtype == torch.bool else array), None
        array = array.numpy()
    elif isinstance(data, np.ma.MaskedArray):
        array, masked = np.asarray(data.filled(0)), np.ma.getmaskarray(data)
    else:
        try:
            array = np.asarray(data)
        except ValueError as error:
            raise ValueError(
                "data must be an array of whole numbers whose rows have equal lengths; the rows of this list differ: "
                "cut or pad them"
            ) from error
    if array.dtype.kind == "O":
        is_missing = np.array([unknown(value) for value in array.flat], dtype=bool).reshape(array.shape)
        try:
            array = np.where(is_missing, np.nan, array).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"data must hold whole numbers, or None where a value is missing: {error}") from error
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        is_missing = np.isnan(array)
        filled = np.where(is_missing, 0, array)
        if not np.isfinite(filled).all() or (filled != np.floor(filled)).any() or (np.abs(filled) >= 2**31).any():
            raise TypeError(
                "data must hold whole numbers, or NaN where a value is missing: put continuous values into bins"
            )
        array, masked = filled.astype(np.int64), is_missing if masked is None else masked | is_missing
    if array.dtype.kind not in "iub":
        raise TypeError(f"data must be an array of whole numbers, got {type(data).__name__} of {array.dtype}")
    if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(
            f"data must hold states 0, 1, 2, ..., got {array.max()}: renumber the values with numpy.unique(x, "
            "return_inverse=True)[1]"
        )
    small = array.dtype.kind == "b" or (array.min(initial=0) >= 0 and array.max(initial=0) < 256)
    array = array.astype(np.uint8 if small else np.int64)
    missing = None if masked is None or not masked.any() else torch.from_numpy(np.ascontiguousarray(masked))
    return torch.from_numpy(np.ascontiguousarray(array)), missing


def _encoded_texts(texts: Sequence[str], form: TextFormat) -> Dataset:
    states = {character: state for state, character in enumerate(form.alphabet or "")}
    rows = []
    for number, text in enumerate(texts):
        if len(text) != form.length:
            raise ValueError(
                f"texts must have {form.length} characters each, but text {number} has {len(text)}: cut or pad it"
            )
        strange = [character for character in text if character not in states]
        if strange:
            raise ValueError(
                f"text {number} has {strange[0]!r}, which the training data did not contain: use {form.show_alphabet()}"
            )
        rows.append([states[character] for character in text])
    return Dataset(torch.tensor(rows, dtype=torch.int32), form.num_states)
