"""Completed rows of a table: drawn values beside the given ones, which stay exactly as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tauleap.data.columns import Cells, Column, DecodedTable, NumberEncoder, RawTable, TableEncoder, to_frame
from tauleap.data.columns.cells import objects
from tauleap.data.columns.frame import column_series
from tauleap.data.columns.number_text import number_format


def drawn_cells(encoder: TableEncoder, source: RawTable, observed: np.ndarray) -> np.ndarray:
    """Return which cells are written from the model, bool (rows, sites): the empty and the unobserved ones.

    A cell that the model cannot read is missing to the model, but it was given: it stays as it is.

    Args:
        encoder: The encoder of the model.
        source: The rows as they were given.
        observed: Which cells the user did not ask to draw, (rows, sites).
    """
    encoded = encoder.encode(source)
    return ~observed | (encoded.missing & ~encoded.unreadable)


def completed_texts(
    encoder: TableEncoder, source: RawTable, decoded: DecodedTable, drawn: np.ndarray
) -> dict[str, list[str]]:
    """Return the columns of a file with drawn cells, in the order and the number formats of the file.

    Args:
        encoder: The encoder of the model.
        source: The rows of the file.
        decoded: The values of all rows, of which those of drawn cells are written.
        drawn: Which cells are drawn, (rows, sites).
    """
    sites = {encoder.columns[place].name: (site, place) for site, place in enumerate(encoder.sites)}
    columns = {}
    for name, cells in source.columns.items():
        texts = objects([*map(str, cells.values.tolist()), cells.marker])[cells.codes]
        if name in sites:
            site, place = sites[name]
            column = _in_format(encoder.columns[place], cells, source.decimal)
            rows = drawn[:, site]
            texts[rows] = column.texts(decoded.values[place][rows], decoded.missing[place][rows])
        columns[name] = texts.tolist()
    return columns


def _in_format(column: Column, cells: Cells, decimal: str | None) -> Column:
    """Return the column with the marker and the number format of a file, which may differ from those of training."""
    column = replace(column, marker=cells.marker)
    if not isinstance(column.encoder, NumberEncoder) or len(cells.values) == 0 or cells.kind != "text":
        return column
    found = number_format(cells.values.tolist(), decimal=decimal, least=0.5)
    return column if found is None else replace(column, number=found[0])


def completed_frame(encoder: TableEncoder, source: RawTable, decoded: DecodedTable, drawn: np.ndarray) -> Any:
    """Return a frame of the given rows with drawn cells.

    A given frame keeps its columns, index and types. A file becomes a frame with the types of the model.

    Args:
        encoder: The encoder of the model.
        source: The rows as they were given.
        decoded: The values of all rows, of which those of drawn cells are used.
        drawn: Which cells are drawn, (rows, sites).
    """
    if source.frame is None:
        return to_frame(_merged(encoder, source, decoded, drawn))
    import pandas

    frame = source.frame.copy()
    labels = {str(label): label for label in frame.columns}
    for site, place in enumerate(encoder.sites):
        rows = drawn[:, site]
        if rows.any():
            column, cells = encoder.columns[place], source.columns[encoder.columns[place].name]
            label = labels[column.name]
            if cells.kind == "text" and len(cells.values):
                texts = column.texts(decoded.values[place], decoded.missing[place])
                new = pandas.Series(objects(texts), dtype=object).mask(decoded.missing[place])
            else:
                new = column_series(column, decoded.values[place], decoded.missing[place])
            frame[label] = _filled(pandas, frame[label], new, rows)
    return frame


def _filled(pandas: Any, series: Any, new: Any, rows: np.ndarray) -> Any:
    """Return a series with the values of another in some rows, in its own type if that has the values."""
    if rows.all() or series.isna().to_numpy()[~rows].all():
        values = new.mask(~rows) if not rows.all() else new
        return pandas.Series(values.array, index=series.index)
    cells = series.astype(object).to_numpy(copy=True)
    cells[rows] = new.astype(object).to_numpy()[rows]
    result = pandas.Series(cells, index=series.index, dtype=object)
    if isinstance(series.dtype, pandas.CategoricalDtype):
        extra = [value for value in dict.fromkeys(cells[rows]) if value not in series.cat.categories]
        extra = [value for value in extra if not pandas.isna(value)]
        categories = [*series.cat.categories, *extra]
        return result.astype(pandas.CategoricalDtype(categories, ordered=series.cat.ordered))
    try:
        return result.astype(series.dtype)
    except (TypeError, ValueError, OverflowError):
        return result.infer_objects()


def _merged(encoder: TableEncoder, source: RawTable, decoded: DecodedTable, drawn: np.ndarray) -> DecodedTable:
    """Return the columns of a file that the model has, with the values of the file where they are not drawn."""
    site = {place: site for site, place in enumerate(encoder.sites)}
    columns, values, missing = [], [], []
    for place, column in enumerate(encoder.columns):
        if column.name not in source.columns:
            continue
        cells = source.columns[column.name]
        original, readable = column.convert(cells)
        if place in site:
            rows = drawn[:, site[place]]
            own, gone = decoded.values[place], decoded.missing[place]
        else:
            rows, own = np.zeros(source.num_rows, dtype=bool), objects([None] * source.num_rows)
            gone = np.ones(source.num_rows, dtype=bool)
        given = np.append(readable, False)[cells.codes] & ~rows
        mixed = own.copy() if own.dtype.kind == original.dtype.kind else own.astype(object)
        if mixed.dtype.kind in "Mf" and mixed.dtype != original.dtype:
            mixed = mixed.astype(np.promote_types(mixed.dtype, original.dtype))
        mixed[given] = original[cells.codes[given]]
        columns.append(column)
        values.append(mixed)
        missing.append(~given & (gone | ~rows))
    return DecodedTable(tuple(columns), tuple(values), tuple(missing), source.dialect or encoder.dialect)
