"""The columns of a table's file: delimited text by our reader, ``.parquet`` by pyarrow and pandas.

Pyarrow reads parquet files because they have types, which delimited text does not have; the reasons for our own reader
of delimited text are in :mod:`tauleap.data.table.csv.reader`.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from tauleap.data import limits
from tauleap.data.table.columns import RawTable, from_frame
from tauleap.data.table.csv import read_delimited

_INDEX_LEVEL = re.compile(r"__index_level_[0-9]+__")
"""Names that pandas gives to row labels without a name."""
_NULLABLE = {
    **{f"int{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
    "bool": "boolean",
}
"""Types of pyarrow that pandas turns into floats or objects where values are missing, and its types that do not."""


def read_table(path: Path, **options: Any) -> RawTable:
    """Return the columns of a table.

    Args:
        path: A ``.parquet`` file or delimited text.
        options: Arguments of :func:`tauleap.data.table.csv.read_delimited`, only for delimited text.

    Raises:
        ValueError: The file cannot be read, or an option has no meaning for it.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if path.suffix.lower() != ".parquet":
        return read_delimited(path, **given)
    if given:
        names, (verb, them) = " and ".join(given), ("are", "them") if len(given) > 1 else ("is", "it")
        raise ValueError(
            f"{names} {verb} for delimited text, and {path} stores types and encoding itself: leave {them} out"
        )
    return from_frame(_read_parquet(path), str(path))


def _read_parquet(path: Path) -> Any:
    try:
        import pandas
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ValueError("a .parquet file needs other packages: write pip install 'tauleap[table]'") from error
    limits.size(path)
    damaged = (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        rows, names = file.metadata.num_rows, [str(name) for name in file.schema_arrow.names]
        unpacked = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
    except damaged as error:
        raise _as_damage(path, error) from error
    if not 0 <= rows * len(names) <= limits.VALUES or not 0 <= unpacked <= limits.FILE_BYTES:
        most = f"at most {limits.VALUES:,} cells and {limits.FILE_BYTES:,} bytes"
        found = f"{rows * len(names):,} cells that unpack to {unpacked:,} bytes"
        raise ValueError(f"{path} must have {most}, got {found}: write a part of it to another file")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}: columns have the same name, {', '.join(map(repr, repeated))}: rename them")
    try:
        table = file.read()
        metadata = table.schema.pandas_metadata
        dtypes = _pandas_types(metadata)
        series = [
            _series(pandas, pyarrow, column, dtypes.get(name))
            for name, column in zip(names, table.columns, strict=True)
        ]
        frame = pandas.DataFrame(dict(zip(names, series, strict=True)))
        return _with_index(frame, table, metadata)
    except damaged as error:
        raise _as_damage(path, error) from error


def _with_index(frame: Any, table: Any, metadata: Any) -> Any:
    """Return a frame whose index is that of the file, without the columns in which pandas stores unnamed labels."""
    stored = metadata.get("index_columns", []) if isinstance(metadata, dict) else []
    labels = [name for name in stored if isinstance(name, str)]
    unnamed = all(map(_INDEX_LEVEL.fullmatch, labels)) and {*labels} < {*frame.columns}
    if not stored or not unnamed:
        return frame  # a name is that of a column, for other programs than pandas
    frame = frame.drop(columns=labels)
    with suppress(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        # Anybody may have written the metadata; without an index the rows are numbered.
        frame.index = table.select(labels).to_pandas().index
    return frame


def _pandas_types(metadata: Any) -> dict[str, str]:
    """Return the types of pandas that have missing values of their own, by column, if pandas has written the file."""
    found = metadata.get("columns", []) if isinstance(metadata, dict) else []
    types = {entry.get("name"): entry.get("numpy_type") for entry in found if isinstance(entry, dict)}
    own = {*_NULLABLE.values(), "Float32", "Float64", "string"}
    return {name: type_ for name, type_ in types.items() if isinstance(name, str) and type_ in own}


def _series(pandas: Any, pyarrow: Any, column: Any, dtype: str | None) -> Any:
    if dtype is not None:
        return pandas.Series(column.to_pylist(), dtype=dtype)
    series = column.to_pandas()
    nullable = _NULLABLE.get(str(column.type))
    if column.null_count and nullable is not None:
        return pandas.Series(column.to_pylist(), dtype=nullable)
    return series


def _as_damage(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is damaged, or no parquet file: {' '.join(str(error).split())[:200]}")
