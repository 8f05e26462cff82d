"""Check the types of the arguments that open a table from Python; the command line checks its own options."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

from tauleap.data.table.columns import Problem
from tauleap.data.table.columns.number import MOST_BINS


def check_arguments(*, types: object = None, bins: object = None, header: object = None) -> None:
    """Refuse arguments of a wrong type; their values are checked together with the columns.

    Args:
        types: Types by column name. Default: none.
        bins: Quantile bins per column. Default: none given.
        header: Whether the first line has the names. Default: none given.

    Raises:
        TypeError: An argument has another type.

    >>> check_arguments(types={"age": "number"}, bins=100, header=True)
    """
    if types is not None and not isinstance(types, Mapping):
        raise TypeError(f"types must be types by column name, such as {{'age': 'number'}}, got {types!r}")
    if bins is not None and (isinstance(bins, bool) or not isinstance(bins, Integral)):
        raise TypeError(f"bins must be a whole number of 2..{MOST_BINS:,}, got {bins!r}")
    if header is not None and not isinstance(header, bool):
        raise TypeError(f"header must be True, False or None (detected), got {header!r}")


def contradiction(column: str) -> Problem:
    """Return the problem of a column that is given a type and is also left out.

    Args:
        column: The name of the column.
    """
    message = f"column {column!r} is given a type and is also left out"
    return Problem(message, f"remove {column} from --type (types=) or from --drop (drop=)")
