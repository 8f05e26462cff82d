"""Data that is in memory already: arrays, lists, texts and pandas frames, as rows of states and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tauleap.data.arrays import Dataset
from tauleap.data.form import Form, Opened
from tauleap.data.table import TableForm
from tauleap.data.text import TextForm

_CONVERT: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "text": str,
}


@dataclass(frozen=True)
class Kind:
    """What data was given as, so that samples come back as the same: ``types`` are those of a frame's columns."""

    name: Literal["tensor", "frame", "texts"] = "tensor"
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in ("tensor", "frame", "texts") or any(kind not in _CONVERT for kind in self.types):
            raise ValueError(f"data is given as tensor, frame or texts, got {self.name!r} with types {self.types!r}")


def take(data: Any, *, num_states: int | None = None) -> tuple[Dataset, Form | None, Kind]:
    """Rows of states, what they mean where that is not plain, and what they were given as.

    >>> rows, form, kind = take(["abba", "baab"])
    >>> rows.x.tolist(), form.texts(rows.x), kind.name
    ([[0, 1, 1, 0], [1, 0, 0, 1]], ['abba', 'baab'], 'texts')
    """
    if isinstance(data, Opened):
        return data.dataset, data.form, Kind()
    if isinstance(data, Dataset):
        return data, None, Kind()
    if _is_frame(data):
        form, types = _table_of(data)
        return _encoded_frame(data, form), form, Kind("frame", types)
    if _is_texts(data):
        form = TextForm(len(data[0]), "".join(sorted(set().union(*data))))
        return _encoded_texts(data, form), form, Kind("texts")
    return _encoded_array(data, num_states), None, Kind()


def read(data: Any, *, form: Form | None, num_states: int) -> Dataset:
    """Data of the same kind again, in the coding that ``form`` has."""
    if isinstance(data, Opened):
        return data.dataset
    if isinstance(data, Dataset):
        return data
    if _is_frame(data):
        if not isinstance(form, TableForm):
            raise TypeError("x is a frame, but the model was not fitted on a table: give states as whole numbers")
        return _encoded_frame(data, form)
    if _is_texts(data):
        if not isinstance(form, TextForm):
            raise TypeError("x is text, but the model was not fitted on texts: give states as whole numbers")
        return _encoded_texts(data, form)
    return _encoded_array(data, num_states)


def restore(x: Tensor, kind: Kind, form: Form | None) -> Any:
    """States as what the data was given as."""
    if kind.name == "texts" and isinstance(form, TextForm):
        return form.texts(x)
    if kind.name == "frame" and isinstance(form, TableForm):
        import pandas  # pyright: ignore[reportMissingImports] (only where frames are given)

        states = form.check(x)
        columns = {}
        for place, (name, held, type_) in enumerate(zip(form.columns, form.categories, kind.types, strict=True)):
            values = [_CONVERT[type_](value) for value in held]
            columns[name] = [values[state] for state in states[:, place].tolist()]
        return pandas.DataFrame(columns)
    return x


def _is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")


def _is_texts(data: Any) -> bool:
    return isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(row, str) for row in data)


def _encoded_array(data: Any, num_states: int | None) -> Dataset:
    values, missing = _whole_numbers(data)
    if values.ndim < 2 or len(values) == 0:
        raise ValueError(f"data must be one or more rows, (n, *shape) with n >= 1, got shape {tuple(values.shape)}")
    lowest, highest = (int(value) for value in torch.aminmax(values))
    if lowest < 0:
        raise ValueError(f"data must hold states 0, 1, 2, ..., got {lowest}: subtract the smallest value")
    if num_states is None:
        num_states = max(2, highest + 1)
    return Dataset(values, num_states, missing=missing)


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
        gone = np.array([_unknown(value) for value in array.flat], dtype=bool).reshape(array.shape)
        try:
            array = np.where(gone, np.nan, array).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"data must hold whole numbers, or None where a value is missing: {error}") from error
    if array.dtype.kind == "f":
        gone = np.isnan(array)
        filled = np.where(gone, 0, array)
        if not np.isfinite(filled).all() or (filled != np.floor(filled)).any() or (np.abs(filled) >= 2**31).any():
            raise TypeError("data must hold whole numbers, NaN where a value is missing: bin what is continuous first")
        array, hidden = filled.astype(np.int64), gone if hidden is None else hidden | gone
    if array.dtype.kind not in "iub":
        raise TypeError(f"data must be an array of whole numbers, got {type(data).__name__} of {array.dtype}")
    small = array.dtype.kind == "b" or (array.min(initial=0) >= 0 and array.max(initial=0) < 256)
    array = array.astype(np.uint8 if small else np.int64)
    missing = None if hidden is None or not hidden.any() else torch.from_numpy(np.ascontiguousarray(hidden))
    return torch.from_numpy(np.ascontiguousarray(array)), missing


def _encoded_texts(texts: Sequence[str], form: TextForm) -> Dataset:
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


def _table_of(frame: Any) -> tuple[TableForm, tuple[str, ...]]:
    names, categories, types = [], [], []
    for name in frame.columns:
        held = [value for value in frame[name].dropna().unique().tolist() if not _unknown(value)]
        type_ = _type_of(held)
        if type_ == "int":
            held = [int(value) for value in held]
        held = sorted(held) if type_ != "text" else sorted({str(value) for value in held})
        if not held:
            raise ValueError(f"column {name!r} has no value in it: leave it out, frame.drop(columns=[{name!r}])")
        names.append(str(name))
        categories.append(tuple(str(value) for value in held))
        types.append(type_)
    return TableForm(tuple(names), tuple(categories), False), tuple(types)


def _encoded_frame(frame: Any, form: TableForm) -> Dataset:
    absent = [name for name in form.columns if name not in {str(column) for column in frame.columns}]
    if absent:
        raise ValueError(f"the frame has no column {absent[0]!r}: it must have {', '.join(form.columns)}")
    x = torch.zeros(len(frame), len(form.columns), dtype=torch.int32)
    missing = torch.zeros(x.shape, dtype=torch.bool)
    by_name = {str(column): frame[column].tolist() for column in frame.columns}
    for place, (name, held) in enumerate(zip(form.columns, form.categories, strict=True)):
        known = {category: code for code, category in enumerate(held)}
        for row, value in enumerate(by_name[name]):
            if _unknown(value):
                missing[row, place] = True
                continue
            text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
            code = known.get(text, known.get(str(value)))
            if code is None:
                raise ValueError(f"row {row}, column {name!r}: {value!r} is no category that the model knows")
            x[row, place] = code
    return Dataset(x, form.num_states, missing=missing if bool(missing.any()) else None, sizes=form.sizes)


def _unknown(value: Any) -> bool:
    # NaN, pandas' NaT and the like are not equal to themselves; pandas' NA has no truth.
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True


def _type_of(values: list[Any]) -> str:
    if values and all(isinstance(value, bool | np.bool_) for value in values):
        return "bool"
    numbers = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
    if values and numbers:
        return "int" if all(float(value).is_integer() for value in values) else "float"
    return "text"
