"""The cells of a table as text: ``.csv`` and ``.tsv`` by the csv module, ``.parquet`` by pyarrow.

A cell that is empty, or holds one of a few marks such as NA, is missing.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tauleap.data import limits

MISSING_MARKS = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"})
"""What a cell holds whose value nobody knows; spaces around it do not count."""

_DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}

Line = tuple[str, Sequence[str | None]]
"""Where a row is, for messages, and its cells; None for what is missing."""


def read_lines(path: Path) -> tuple[list[str], Iterator[Line]]:
    """Return the names of the columns, and an iterator of the rows.

    Args:
        path: A ``.csv``, ``.tsv`` or ``.parquet`` file.
    """
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    return _read_text(path)


def _read_text(path: Path) -> tuple[list[str], Iterator[Line]]:
    content = limits.contents(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8: save the table as UTF-8"
        ) from error
    delimiter = max(_DELIMITERS.get(path.suffix.lower(), ",;\t"), key=lambda one: _columns(text, one))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    def lines() -> Iterator[tuple[int, list[str]]]:
        try:
            for row in rows:
                if row or (header is not None and len(header) == 1):
                    yield rows.line_num, row or [""]
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {rows.line_num}: {error}: a value with a quote, a {delimiter!r} or a line break is "
                'written "in quotes", a quote inside it twice'
            ) from error

    header: list[str] | None = None
    source = lines()
    try:
        _, names = next(source)
    except StopIteration:
        raise ValueError(f"{path} holds no table: its first line must name the columns") from None
    header = _header(names, path)
    return header, _cells(source, header, path)


def _columns(text: str, delimiter: str) -> int:
    """How many names the first line has when it is cut in this way; 0 where it cannot be."""
    try:
        return len(next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), []))
    except csv.Error:
        return 0


def _cells(source: Iterator[tuple[int, list[str]]], header: list[str], path: Path) -> Iterator[Line]:
    for count, (line, row) in enumerate(source):
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line}: {len(row)} cells, but the first line names {len(header)} columns")
        if count * len(header) > limits.VALUES:
            raise ValueError(f"{path} has more than {limits.VALUES:,} cells: write a part of it to a file of its own")
        yield f"line {line}", [None if cell.strip() in MISSING_MARKS else cell for cell in row]


def _read_parquet(path: Path) -> tuple[list[str], Iterator[Line]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ValueError("a .parquet file needs another package: write pip install 'tauleap[table]'") from error
    limits.size(path)
    damaged = (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)

    def as_damage(error: Exception) -> ValueError:
        return ValueError(f"{path} is damaged, or no parquet file: {' '.join(str(error).split())[:200]}")

    try:
        file = pyarrow.parquet.ParquetFile(path)
        rows, schema = file.metadata.num_rows, file.schema_arrow
        unpacked = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
        names = [str(name) for name in schema.names]
        types = [schema.field(place).type for place in range(len(names))]
    except damaged as error:
        raise as_damage(error) from error
    header = _header(names, path)
    if not 0 <= rows * len(header) <= limits.VALUES or not 0 <= unpacked <= limits.FILE_BYTES:
        raise ValueError(f"{path} has {rows:,} rows and unpacks to {unpacked:,} bytes: write a part of it to a file")
    for name, kind in zip(header, types, strict=True):
        if pyarrow.types.is_nested(kind):
            raise ValueError(f"{path}: column {name!r} has lists or records ({kind}) in its cells, not categories")

    def lines() -> Iterator[Line]:
        row = 0
        try:
            for batch in file.iter_batches(batch_size=8192):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    row += 1
                    yield f"row {row}", [_as_cell(value) for value in values]
        except damaged as error:
            raise as_damage(error) from error

    return header, lines()


def _as_cell(value: object) -> str | None:
    if isinstance(value, float):  # whole numbers become floats where some are missing
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return None if value is None or text.strip() in MISSING_MARKS else text


def _header(names: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in names]
    if not names or "" in names:
        raise ValueError(f"{path}, line 1: column {names.index('') + 1 if names else 1} has no name; write one")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}, line 1: two columns are called {repeated[0]!r}; names must differ")
    return names
