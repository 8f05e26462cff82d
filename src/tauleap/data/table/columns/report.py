"""Report the columns of a table to the user: types with their reasons, and cells that cannot be read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tauleap._files.printable import one_line
from tauleap.data.table.columns.boolean import BooleanEncoder
from tauleap.data.table.columns.category import CategoryEncoder
from tauleap.data.table.columns.cells import Cells
from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.fields import short
from tauleap.data.table.columns.raw import Problem, RawTable, type_remedy

_VALUES_SHOWN = 10
"""Distinct values of one column that are reported one by one."""
_LINES_SHOWN = 3
"""Lines that are reported for one value."""
_CATEGORIES_SHOWN = 5


def describe(columns: Sequence[Column]) -> list[str]:
    """Return one line per column: name, type, number of states and reason, and the way to change a type.

    Args:
        columns: The columns of a table.
    """
    rows = [("column", "type", "states", "reason")]
    for column in columns:
        states = f"{column.num_states:,}" if column.modelled else "-"
        rows.append((one_line(column.name, most=30), column.encoder.type, states, one_line(_effect(column))))
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {type_:<{widths[1]}}  {states:>{widths[2]}}  {reason}"
        for name, type_, states, reason in rows
    ]
    return [*lines, _change(columns)]


def nothing_to_learn(columns: Sequence[Column]) -> Problem:
    """Return the problem of a table that has no column with two states.

    Args:
        columns: The columns of the table.
    """
    types = "; ".join(f"{column.name}: {column.encoder.type}, {column.reason}" for column in columns[:20])
    excluded = next((column.name for column in columns if column.encoder.type in ("id", "text")), None)
    remedy = "add rows with other values" if excluded is None else type_remedy(excluded)
    return Problem(f"no column has anything to learn ({one_line(types)})", remedy)


def unreadable_cells(
    column: Column, raw: RawTable, cells: Cells, bad: Sequence[int], *, training: bool
) -> list[Problem]:
    """Return one problem per line of the first values that cannot be read, and one that counts the others.

    Args:
        column: The column.
        raw: The table, for its lines.
        cells: The cells of the column.
        bad: The positions of the distinct values that cannot be read.
        training: Whether the types of columns can still be changed.
    """
    what = {"number": "not a number", "date": "not a date", "boolean": "neither true nor false"}
    message = what.get(column.encoder.type, "not a category of the model")
    remedy = _remedy(column, training)
    found = []
    for position in bad[:_VALUES_SHOWN]:
        for row in cells.rows_of(position, _LINES_SHOWN):
            text = f"{short(cells.values[position])} is {message} and counts as missing"
            where = raw.line(row)
            text = text if where is not None else f"row {row}: {text}"
            found.append(Problem(text, remedy, line=where, column=column.name))
    if len(bad) > _VALUES_SHOWN:
        rest = f"{len(bad) - _VALUES_SHOWN:,} more distinct values are {message} and count as missing"
        found.append(Problem(rest, remedy, column=column.name))
    return found


def _remedy(column: Column, training: bool) -> str:
    encoder = column.encoder
    if isinstance(encoder, CategoryEncoder):
        known = ", ".join(short(category) for category in encoder.categories[:_CATEGORIES_SHOWN])
        more = ", ..." if len(encoder.categories) > _CATEGORIES_SHOWN else ""
        return f"write one of {known}{more}, or leave the cell empty"
    if isinstance(encoder, BooleanEncoder):
        return f"write {encoder.words[0]} or {encoder.words[1]}, or leave the cell empty"
    remedy = "correct it or leave the cell empty"
    # A trained model has its types; only before training they can be changed.
    return f"{remedy}, or {type_remedy(column.name)}" if training else remedy


def _change(columns: Sequence[Column]) -> str:
    """Return how to change a type, for a column and a type that make a difference."""
    order = ("id", "text", "number", "date", "boolean", "category", "constant")
    column = min(columns, key=lambda column: order.index(column.encoder.type))
    type_ = "text" if column.encoder.type in ("category", "constant") else "category"
    name = one_line(column.name, most=30)
    return f"change a type: --type {shlex.quote(f'{name}={type_}')}; in Python types={{{name!r}: {type_!r}}}"


def _effect(column: Column) -> str:
    encoder = column.encoder
    if encoder.type == "id":
        return f"{column.reason}; excluded, the output has a running number"
    if encoder.type == "text":
        return f"{column.reason}; excluded, the output is empty"
    if isinstance(encoder, CategoryEncoder) and encoder.other is not None:
        frequent = f"the {len(encoder.categories):,} most frequent keep their states"
        written = "drawn from the rare values" if encoder.rare else f"written as {encoder.other} without --keep-rare"
        return f"{column.reason}; {frequent}, the others are {written}"
    return column.reason + ("; missing is a state" if column.missing_state else "")
