"""Completed rows of a table: drawn values beside the given ones, which stay exactly as they were.

Text files, parquet files and frames have one rule (:func:`drawn_cells`) and one format per column
(:meth:`Column.adapted`). A text file is completed as texts; frames, parquet files and text files whose result is a
frame are completed by :func:`completed_frame`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tauleap.data.table.columns import Cells, Column, DecodedTable, FreeTextColumn, RawTable, TableEncoder, detect
from tauleap.data.table.columns.cells import objects
from tauleap.data.table.columns.encoder import readable_cells
from tauleap.data.table.columns.frame import column_series
from tauleap.data.table.columns.frame_types import column_name


def drawn_cells(encoder: TableEncoder, source: RawTable, observed: np.ndarray) -> np.ndarray:
    """Return which cells are written from the model, bool (rows, sites): the empty and the unobserved ones.

    A cell that the model cannot read is missing to the model, but it was given: it stays as it is.

    Args:
        encoder: The encoder of the model.
        source: The rows as they were given.
        observed: Which cells are conditioned on if they have a value, (rows, sites).
    """
    encoded = encoder.encode(source)
    return ~observed | (encoded.missing & ~encoded.unreadable)


def completed_texts(
    encoder: TableEncoder, source: RawTable, decoded: DecodedTable, drawn: np.ndarray
) -> dict[str, list[str]]:
    """Return the columns of a file with drawn cells, in the order and the formats of the file.

    Args:
        encoder: The encoder of the model.
        source: The rows of the file.
        decoded: The values of all rows, of which those of drawn cells are written.
        drawn: Which cells are drawn, (rows, sites).
    """
    sites = _sites(encoder)
    columns = {}
    for name, cells in source.columns.items():
        texts = cells.texts()
        if name in sites:
            site, place = sites[name]
            column = encoder.columns[place].adapted(readable_cells(encoder.columns[place], source), source.decimal)
            rows = drawn[:, site]
            texts[rows] = column.texts(decoded.values[place][rows], decoded.missing[place][rows])
        columns[name] = texts.tolist()
    return columns


def completed_frame(encoder: TableEncoder, source: RawTable, decoded: DecodedTable, drawn: np.ndarray) -> Any:
    """Return a frame of the given rows with drawn cells.

    A given frame keeps its columns, index and types. A file becomes a frame with all of its columns: those of the model
    have the types of the model, the others have detected types, and a column with cells that cannot be read has texts.

    Args:
        encoder: The encoder of the model.
        source: The rows as they were given.
        decoded: The values of all rows, of which those of drawn cells are used.
        drawn: Which cells are drawn, (rows, sites).
    """
    import pandas

    series, texts = _columns_of(encoder, source)
    for name, (site, place) in _sites(encoder).items():
        rows = drawn[:, site]
        if rows.any():
            column = encoder.columns[place].adapted(readable_cells(encoder.columns[place], source), source.decimal)
            values, missing = decoded.values[place], decoded.missing[place]
            if name in texts:
                written = column.texts(values, missing)
                if name in source.frame_types and source.frame_types[name].objects == "bytes":
                    written = [text.encode("utf-8", "surrogateescape") for text in written]
                new = pandas.Series(objects(written), dtype=object).mask(missing)
            else:
                new = column_series(column, values, missing)
            series[name] = _filled(pandas, series[name], new, rows)
    if source.frame is None:
        typed = {column.name for column in encoder.columns if column.frame_type is not None}
        return pandas.DataFrame(
            {name: column if name in typed else _without_nullable(column) for name, column in series.items()}
        )
    result = pandas.concat(list(series.values()), axis=1)
    result.columns = source.frame.columns
    return result


def _sites(encoder: TableEncoder) -> dict[str, tuple[int, int]]:
    """Return the position among the sites and among the columns of every modelled column, by name."""
    return {encoder.columns[place].name: (site, place) for site, place in enumerate(encoder.sites)}


def _columns_of(encoder: TableEncoder, source: RawTable) -> tuple[dict[str, Any], set[str]]:
    """Return the given columns as pandas series by name, and the names of those whose cells are texts."""
    if source.frame is not None:
        series = {column_name(label): source.frame.iloc[:, place] for place, label in enumerate(source.frame.columns)}
        return series, {name for name, cells in source.columns.items() if cells.kind == "text" and len(cells.values)}
    import pandas

    columns = {encoder.columns[place].name: encoder.columns[place] for place in encoder.sites}
    series, texts = {}, set()
    for name in source.columns:
        column = columns.get(name, Column(name, FreeTextColumn()))
        cells = readable_cells(column, source)
        missing = cells.codes < 0
        adapted = column.adapted(cells, source.decimal)
        values = adapted.values_of(cells) if name in columns else _natural_values(name, cells, source.decimal)
        if len(cells.values) == 0:
            series[name] = pandas.Series(objects([None] * source.num_rows), dtype=object)
        elif values is None:
            texts.add(name)
            series[name] = pandas.Series(cells.texts(), dtype=object).mask(missing)
        else:
            series[name] = column_series(adapted, np.append(values, values[:1])[cells.codes], missing)
    return series, texts


def _natural_values(name: str, cells: Cells, decimal: str | None) -> np.ndarray | None:
    """Return the distinct values of a column that the model does not have as numbers or dates, or None for texts."""
    found = detect(name, cells, decimal=decimal, marks=False)
    is_time = found.date is not None and found.date.is_time
    if found.parsed is None or found.type == "category" or is_time or not (found.valid is None or found.valid.all()):
        return None
    return found.parsed


def _without_nullable(series: Any) -> Any:
    """Return a series without missing values in the type that pandas has for such a series."""
    plain = {"Int64": "int64", "UInt64": "uint64", "boolean": "bool"}.get(str(series.dtype))
    return series if plain is None or series.isna().any() else series.astype(plain)


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
