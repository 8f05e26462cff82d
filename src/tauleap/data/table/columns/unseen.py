"""Find cells whose values the training rows do not cover: new categories, and numbers below or above all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.encoder import TableEncoder, readable_cells
from tauleap.data.table.columns.number import NumberEncoder
from tauleap.data.table.columns.raw import RawTable


def unseen_cells(encoder: TableEncoder, raw: RawTable) -> np.ndarray:
    """Return which cells have a value that is outside the training values of their column.

    Args:
        encoder: The encoder of all columns.
        raw: A table with every modelled column.

    Returns:
        bool (rows, sites), false where a cell is empty.
    """
    return np.stack([_unseen(encoder.columns[place], raw) for place in encoder.sites], axis=1)


def training_range(column: Column) -> tuple[Any, Any] | None:
    """Return the smallest and the largest training value of a column of numbers or dates, None for other columns.

    Args:
        column: The column.

    >>> training_range(Column("age", NumberEncoder.fit(np.array([31, 42, 17]))))
    (17, 42)
    """
    encoder = column.encoder
    if not isinstance(encoder, NumberEncoder | DateEncoder):
        return None
    ends = np.array([0, encoder.num_states - 1])
    low, high = encoder.decode(ends, uniforms=np.array([0.0, 1 - 2.0**-53])).tolist()
    return low, high


def _unseen(column: Column, raw: RawTable) -> np.ndarray:
    cells = readable_cells(column, raw)
    column = column.adapted(cells, raw.decimal, writes=False)
    values, readable = column.convert(cells)
    states, unknown = column.encoder.encode(values)
    unseen = unknown | ~readable
    encoder = column.encoder
    if isinstance(encoder, NumberEncoder | DateEncoder):
        # Only values in the first and the last state can be outside.
        ends = np.array([0, encoder.num_states - 1])
        low, high = encoder.decode(ends, uniforms=np.array([0.0, 1 - 2.0**-53]))
        known = np.flatnonzero(~unseen)
        below = (states[known] == 0) & (values[known] < low)
        above = (states[known] == encoder.num_states - 1) & (values[known] > high)
        unseen[known] = below | above
    return np.append(unseen, False)[cells.codes]
