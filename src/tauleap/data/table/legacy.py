"""Tables of models that were saved when every column was a category."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tauleap.data import limits
from tauleap.data.table.columns import CategoryEncoder, Column, TableEncoder
from tauleap.data.table.columns.fields import Scalar
from tauleap.data.table.columns.frame_types import FrameType

_CONVERT: dict[str, Callable[[str], Scalar]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "text": str,
}
"""From the text of a category to a value of the type that its column had in a frame."""
_DTYPES = {"int": "int64", "float": "float64", "bool": "bool", "text": "object"}


def encoder_of_categories(config: Mapping[str, Any]) -> TableEncoder:
    """Return the encoder of a table whose columns are all categories.

    Args:
        config: The names as ``columns``, the texts of each column as ``categories``, and ``ordered``, which had no
            effect on a trained model.

    Raises:
        ValueError: It describes no table.

    >>> old = {"kind": "table", "columns": ["a"], "categories": [["x", "y"]], "ordered": False}
    >>> encoder_of_categories(old).sizes
    (2,)
    """
    if set(config) - {"kind"} != {"columns", "categories", "ordered"}:
        raise ValueError("a format of kind 'table' must have the fields columns, dialect and suffix")
    names, categories = config["columns"], config["categories"]
    if not _texts(names) or not isinstance(categories, list | tuple) or len(names) != len(categories):
        raise ValueError("a table must have one or more columns with names, and as many lists of categories")
    if not isinstance(config["ordered"], bool):
        raise ValueError("ordered must be true or false")
    columns = []
    for name, texts in zip(names, categories, strict=True):
        if not _texts(texts) or len(texts) > limits.CATEGORIES:
            raise ValueError(f"column {name!r} must have 1 to {limits.CATEGORIES} categories, each a text")
        columns.append(Column(name, CategoryEncoder(tuple(texts))))
    return TableEncoder(tuple(columns))


def with_frame_types(encoder: TableEncoder, types: Sequence[str], labels: Sequence[str]) -> TableEncoder:
    """Return the encoder of a table that was fitted on a frame: its categories have the types of the frame's columns.

    Args:
        encoder: What :func:`encoder_of_categories` returned.
        types: The type of each column: int, float, bool or text.
        labels: The type of each name, int or text; may be empty.

    Raises:
        ValueError: The types are not those of this table.

    >>> old = {"columns": ["3"], "categories": [["7", "8"]], "ordered": False}
    >>> with_frame_types(encoder_of_categories(old), ["int"], ["int"]).columns[0].encoder.categories
    (7, 8)
    """
    labels = list(labels) or ["text"] * len(encoder.columns)
    if len(types) != len(encoder.columns) or len(labels) != len(types) or not {*types, *labels} <= _CONVERT.keys():
        raise ValueError(f"the types of a frame's columns must be {', '.join(_CONVERT)}, one per column, got {types!r}")
    columns = []
    for column, type_, label in zip(encoder.columns, types, labels, strict=True):
        if not isinstance(column.encoder, CategoryEncoder):
            raise ValueError(
                f"frame types need a table whose columns are all categories, got column {column.name!r} of type "
                f"{column.encoder.type!r}"
            )
        if label == "int" and not column.name.removeprefix("-").isdecimal():
            raise ValueError(f"the name {column.name!r} of a column is not a whole number")
        categories = tuple(_CONVERT[type_](str(value)) for value in column.encoder.categories)
        frame_type = FrameType(_DTYPES[type_], "str" if type_ == "text" else "", label=label == "int")
        columns.append(replace(column, encoder=CategoryEncoder(categories), frame_type=frame_type))
    return replace(encoder, columns=tuple(columns))


def _texts(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(item, str) for item in value)
