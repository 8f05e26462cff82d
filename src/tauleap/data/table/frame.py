"""Pandas frames of categories as rows of states and back, with their names and types. Pandas itself is not needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tauleap.data.dataset import Dataset
from tauleap.data.table.format import TableFormat

CONVERT: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "text": str,
}
"""From the text of a category, or of a name, to a value of the type that a column had."""


def is_frame(data: Any) -> bool:
    """Return whether data is a pandas frame, as far as this module needs one.

    Args:
        data: Anything.
    """
    return hasattr(data, "columns") and hasattr(data, "iloc")


def unknown(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, pandas' NaT and NA.

    Args:
        value: The cell.
    """
    # NaN and NaT are not equal to themselves; NA has no truth.
    if value is None:
        return True
    try:
        return bool(value != value)
    except ArithmeticError:  # decimal's signalling NaN refuses to be compared
        return True
    except (TypeError, ValueError):  # an array in a cell has no truth either, but is a value
        return not hasattr(value, "__len__")


def table_of(frame: Any) -> tuple[TableFormat, tuple[str, ...], tuple[str, ...]]:
    """Return the format of a frame, the types of its columns, and the types of the columns' names.

    Args:
        frame: A pandas frame.
    """
    names, categories, types, labels = [], [], [], []
    for name, cells in _columns(frame):
        held = [value for value in cells if not unknown(value)]
        if not held:
            raise ValueError(f"column {name!r} has no value in it: leave it out, frame.drop(columns=[{name!r}])")
        for value in held:
            if isinstance(value, list | tuple | dict | set | np.ndarray):
                raise TypeError(f"column {name!r} has {type(value).__name__}s in its cells, not categories")
        type_ = _type_of(held)
        different = {_spellings(value)[0] for value in held}
        names.append(str(name))
        labels.append("int" if isinstance(name, int) and not isinstance(name, bool) else "text")
        categories.append(tuple(sorted(different, key=None if type_ == "text" else CONVERT[type_])))
        types.append(type_)
    return TableFormat(tuple(names), tuple(categories), False), tuple(types), tuple(labels)


def encoded_frame(frame: Any, form: TableFormat) -> Dataset:
    """Return the states of the columns that the format has, found by name.

    Args:
        frame: A pandas frame.
        form: The format.
    """
    by_name = {str(name): cells for name, cells in _columns(frame)}
    absent = [name for name in form.columns if name not in by_name]
    if absent:
        raise ValueError(f"the frame has no column {absent[0]!r}: it must have {', '.join(form.columns)}")
    x = torch.zeros(len(frame), len(form.columns), dtype=torch.int32)
    missing = torch.zeros(x.shape, dtype=torch.bool)
    for place, (name, held) in enumerate(zip(form.columns, form.categories, strict=True)):
        known = {category: code for code, category in enumerate(held)}
        for row, value in enumerate(by_name[name]):
            if unknown(value):
                missing[row, place] = True
                continue
            code = next((known[text] for text in _spellings(value) if text in known), None)
            if code is None:
                raise ValueError(f"row {row}, column {name!r}: {value!r} is no category that the model knows")
            x[row, place] = code
    return Dataset(x, form.num_states, missing=missing if bool(missing.any()) else None, sizes=form.sizes)


def restored_frame(
    x: Tensor, form: TableFormat, types: tuple[str, ...], labels: tuple[str, ...], index: Any = None
) -> Any:
    """Return states as a frame with the names and types that :func:`table_of` found.

    Args:
        x: States, (n, columns).
        form: The format.
        types: The types of the columns.
        labels: The types of the columns' names.
        index: The index of the rows. Default: 0, 1, 2, ...
    """
    import pandas  # pyright: ignore[reportMissingImports] (only where frames are given)

    states = form.check(x)
    columns = {}
    for place, (name, held) in enumerate(zip(form.columns, form.categories, strict=True)):
        values = [CONVERT[types[place]](value) for value in held]
        label = CONVERT[labels[place] if labels else "text"](name)
        columns[label] = [values[state] for state in states[:, place].tolist()]
    return pandas.DataFrame(columns, index=index)


def _columns(frame: Any) -> list[tuple[Any, list[Any]]]:
    """Names and cells, column by column; names are compared as texts."""
    names = list(frame.columns)
    texts = [str(name) for name in names]
    repeated = [name for name, text in zip(names, texts, strict=True) if texts.count(text) > 1]
    if repeated:
        raise ValueError(f"two columns of the frame are called {repeated[0]!r}: names must differ")
    return [(name, frame.iloc[:, place].tolist()) for place, name in enumerate(names)]


def _spellings(value: Any) -> tuple[str, ...]:
    """How a value is written as a category; whole numbers also as floats, which they become where some are missing."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value)), str(float(value) + 0.0)  # no minus before a zero
    if isinstance(value, np.generic):
        return (str(value.item()),)
    return (str(value),)


def _type_of(values: list[Any]) -> str:
    if all(isinstance(value, bool | np.bool_) for value in values):
        return "bool"
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values):
        return "int" if all(float(value).is_integer() for value in values) else "float"
    return "text"
