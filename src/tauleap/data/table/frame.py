"""Pandas frames as data to train on. Pandas itself is not needed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tauleap.data.format import LoadedData
from tauleap.data.table.columns import from_frame
from tauleap.data.table.columns.number import BINS
from tauleap.data.table.format import load_table


def is_frame(data: Any) -> bool:
    """Return whether data is a pandas frame, as far as this package needs one.

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


def open_frame(
    frame: Any,
    *,
    types: Mapping[str, str] | None = None,
    bins: int = BINS,
    model_missing: bool = False,
    keep_rare: bool = False,
) -> LoadedData:
    """Return the rows of a pandas frame, their format, and a report of the column types.

    Args:
        frame: The frame; None, NaN, NaT and NA are missing.
        types: Types by column name instead of the detected ones. Default: none.
        bins: Quantile bins per column of numbers or dates. Default: 100.
        model_missing: Learn where values are missing. Default: false.
        keep_rare: Store rare categories, so that samples contain them. Default: false.

    Raises:
        ValueError: The frame cannot be used; all problems are listed.

    >>> import pandas
    >>> open_frame(pandas.DataFrame({"a": [1, 2, 2], "b": ["x", "y", "x"]})).form.sizes is None
    True
    """
    return load_table(from_frame(frame), types=types, bins=bins, model_missing=model_missing, keep_rare=keep_rare)
