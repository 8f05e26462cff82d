"""Restore from texts the values and types of pandas that JSON cannot hold, such as intervals and periods."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_INTERVAL = re.compile(r"([\[(])(.+), (.+)([\])])")
_CLOSED = {"[]": "both", "[)": "left", "(]": "right", "()": "neither"}
_DECIMAL = re.compile(r"decimal(128|256)\((\d{1,2}), (-?\d{1,2})\)\[pyarrow\]")
_DICTIONARY = re.compile(r"dictionary<values=((?:large_)?string), indices=(u?int\d+), ordered=([01])>\[pyarrow\]")
_PLAIN = ("string[pyarrow]", "binary[pyarrow]", "large_binary[pyarrow]")
"""Types of pyarrow that pandas does not find by name; by the first name it finds its own type of texts."""
_SPECIAL = ("interval", "period", "datetime64", "timedelta64")


def is_special(dtype: str) -> bool:
    """Return whether the values of a pandas type are stored as texts and restored by :func:`special_values`.

    Args:
        dtype: The name of the type, such as ``interval[int64, right]``.

    >>> is_special("interval[int64, right]"), is_special("int64")
    (True, False)
    """
    return dtype.startswith(_SPECIAL)


def special_values(pandas: Any, texts: Sequence[str | None], dtype: str) -> Any:
    """Return texts as a pandas array of a type with intervals, periods, dates or durations.

    Args:
        pandas: The module.
        texts: The texts of the values as ``str`` returns them; None where a value is missing.
        dtype: The name of the type.

    Raises:
        ValueError: A text is not a value of the type.

    >>> import pandas
    >>> special_values(pandas, ["(0, 1]", "(1, 2]"], "interval[int64, right]")[0]
    Interval(0, 1, closed='right')
    """
    if dtype.startswith("interval"):
        inner = dtype.partition("[")[2].rpartition(",")[0] or "float64"
        values: list[Any] = [None if text is None else _interval(pandas, text, inner) for text in texts]
    elif dtype.startswith("period"):
        freq = dtype.partition("[")[2].rstrip("]")
        values = [None if text is None else pandas.Period(text, freq=freq) for text in texts]
    else:
        kind = pandas.Timedelta if dtype.startswith("timedelta64") else pandas.Timestamp
        values = [None if text is None else kind(text) for text in texts]
    if dtype.startswith("interval") and None in values:
        # An interval of whole numbers cannot be missing, so pandas chooses a type that can.
        return pandas.array([float("nan") if value is None else value for value in values])
    return pandas.array(values, dtype=dtype)


def _interval(pandas: Any, text: str, inner: str) -> Any:
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an interval such as (0, 1]")
    first, low, high, last = found.groups()
    make = int if inner.startswith(("int", "uint")) else float
    if inner.startswith(("datetime64", "timedelta64")):
        make = pandas.Timestamp if inner.startswith("datetime64") else pandas.Timedelta
    return pandas.Interval(make(low), make(high), closed=_CLOSED[first + last])


def arrow_type(pandas: Any, name: str) -> Any:
    """Return a type of pyarrow that pandas does not find by its name: texts, bytes, decimals, dictionaries of texts.

    Args:
        pandas: The module.
        name: The name of the type.

    Raises:
        ValueError: It is not such a type.

    >>> import pandas
    >>> arrow_type(pandas, "decimal128(5, 2)[pyarrow]")
    decimal128(5, 2)[pyarrow]
    """
    import pyarrow

    if name in _PLAIN:
        return pandas.ArrowDtype(pyarrow.type_for_alias(name.removesuffix("[pyarrow]")))
    if found := _DECIMAL.fullmatch(name):
        bits, digits, scale = map(int, found.groups())
        return pandas.ArrowDtype((pyarrow.decimal128 if bits == 128 else pyarrow.decimal256)(digits, scale))
    if found := _DICTIONARY.fullmatch(name):
        values, indices, ordered = found.groups()
        types = pyarrow.type_for_alias(indices), pyarrow.type_for_alias(values)
        return pandas.ArrowDtype(pyarrow.dictionary(*types, ordered=ordered == "1"))
    raise ValueError(f"{name!r} is not a type of pyarrow for texts, bytes, decimals or dictionaries of texts")
