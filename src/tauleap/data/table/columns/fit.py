"""Fit the encoder of one column to its cells, by the type that was detected or given."""

from __future__ import annotations

import numpy as np

from tauleap.data.table.columns.boolean import BooleanEncoder
from tauleap.data.table.columns.category import CategoryEncoder
from tauleap.data.table.columns.cells import Cells
from tauleap.data.table.columns.column import Column, Encoder
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.detect import Detected
from tauleap.data.table.columns.fields import Scalar
from tauleap.data.table.columns.frame_types import FrameType
from tauleap.data.table.columns.number import NumberEncoder
from tauleap.data.table.columns.number_text import NumberFormat
from tauleap.data.table.columns.unmodelled import ConstantColumn, FreeTextColumn, IdentifierColumn


def fit_column(
    name: str,
    detected: Detected,
    *,
    bins: int,
    most: int,
    keep_rare: bool,
    missing_state: bool,
    frame_type: FrameType | None = None,
    header: str | None = None,
) -> Column:
    """Return the column of a detected type.

    Args:
        name: The name of the column.
        detected: Its type, cells and formats.
        bins: Quantile bins of numbers and dates.
        most: States of a category at most.
        keep_rare: Store rare categories.
        missing_state: Give missing values a state, if there are any.
        frame_type: The pandas type of the column. Default: none.
        header: The name in files, if it is another one. Default: None.

    Returns:
        The column.
    """
    cells, type_ = detected.cells, detected.type
    rows = cells.counts if detected.valid is None else np.where(detected.valid, cells.counts, 0)
    encoder: Encoder
    number = detected.number or NumberFormat()
    if type_ == "number":
        values = cells.values if detected.parsed is None else detected.parsed
        encoder = NumberEncoder.fit(values, counts=rows, bins=bins)
    elif type_ == "date":
        values = cells.values if detected.parsed is None else detected.parsed
        zone = "+00:00" if cells.is_utc else ""
        written = detected.date or (None if frame_type is None else frame_type.period_format)
        is_time = frame_type is not None and frame_type.is_time
        encoder = DateEncoder.fit(values, counts=rows, bins=bins, format=written, zone=zone, is_time=is_time)
    elif type_ == "boolean":
        encoder = BooleanEncoder() if detected.words is None else BooleanEncoder(detected.words)
    elif type_ == "category" and len(cells.values) > 1:
        values = [str(value) for value in cells.values] if cells.kind == "date" else cells.values.tolist()
        ordered = frame_type is not None and frame_type.name == "category"
        encoder = CategoryEncoder.fit(values, counts=rows, most=most, keep_rare=keep_rare, order=not ordered)
    elif type_ == "id":
        encoder = IdentifierColumn(_start(detected))
    elif type_ == "text":
        encoder = FreeTextColumn()
    else:
        encoder = ConstantColumn(_constant(cells))
    learned = type_ not in ("id", "text") and len(cells.values) > 0
    with_missing = missing_state and learned and cells.num_known < cells.num_rows
    column = Column(name, encoder, number, cells.marker, with_missing, frame_type, header, detected.reason)
    return column.without_rare_labels(cells, frame_type)


def _start(detected: Detected) -> int:
    """Return the first running number: that of the column if it counts, else 1."""
    cells = detected.cells
    if not detected.reason.startswith("consecutive"):
        return 1
    return int((cells.values if detected.parsed is None else detected.parsed).min())


def _constant(cells: Cells) -> Scalar | None:
    if len(cells.values) == 0:
        return None
    value = cells.values[0]
    if isinstance(value, np.generic):
        value = str(value) if cells.kind == "date" else value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool) else str(value)
