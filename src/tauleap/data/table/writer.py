"""Write the files of a table so that they appear only when they are complete, and show their first rows."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tauleap import _files
from tauleap._files.printable import printable
from tauleap.data.table.columns import Dialect
from tauleap.data.table.columns.frame_types import column_name
from tauleap.data.table.csv import write_texts

_REFUSED = (NotImplementedError, ValueError, TypeError)
"""Errors of pyarrow for columns that parquet files cannot hold; those of the disk are others."""
_COLUMNS, _CHARACTERS = 30, 60
"""Columns and characters per cell that a terminal shows; the others are left out."""


def preview_texts(columns: Mapping[str, Sequence[str]], dialect: Dialect) -> str:
    """Return rows as text for a terminal, with the names of the columns.

    Args:
        columns: The texts of each column by name.
        dialect: How files of this table are written.

    Returns:
        One line per row; of a very wide table the first 30 columns, and the beginning of long cells.

    >>> preview_texts({"a": ["1", "2"], "b": ["x" * 70, "y\\nz"]}, Dialect("|")).splitlines()[2]
    '2|y\\\\nz'
    """
    chosen = list(columns.items())[:_COLUMNS]
    shown = {f"{place}": [_cut(text) for text in texts] for place, (_, texts) in enumerate(chosen)}
    names = {f"{place}": _cut(name) for place, (name, _) in enumerate(chosen)}
    if len(columns) > _COLUMNS:
        shown[f"... {len(columns) - _COLUMNS:,} more columns"] = ["..."] * len(next(iter(shown.values())))
    # A terminal shows tabs as gaps, and other programs may interpret a carriage return.
    text = io.StringIO(newline="")
    write_texts(shown, Dialect("," if dialect.delimiter == "\t" else dialect.delimiter), text, names=names)
    return text.getvalue().rstrip("\n")


def _cut(text: str) -> str:
    text = printable(text)  # a line break or tab would not leave one line per row
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 3]}..."


def write_text(text: io.StringIO, dialect: Dialect, path: Path) -> Path:
    """Write delimited text in the encoding of its dialect and return the file.

    Args:
        text: The text.
        dialect: How the file is written. If its encoding lacks a character, the file is UTF-8.
        path: The file.
    """
    content = text.getvalue()
    try:
        encoded = content.encode(dialect.encoding)
    except UnicodeEncodeError:
        # A completed file may have categories that its own encoding lacks.
        encoded = content.encode("utf-8", "surrogatepass")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(encoded)
    return path


def write_parquet(frame: Any, path: Path) -> Path:
    """Write a pandas frame as a parquet file and return the file.

    Args:
        frame: The frame; its columns get texts as names.
        path: The file.
    """
    frame.columns = [column_name(label) for label in frame.columns]
    content = io.BytesIO()
    try:
        frame.to_parquet(content)
    except _REFUSED:
        # Parquet has no categories of intervals, no periods and no columns of several types: these become texts.
        content = io.BytesIO()
        refused = [name for name in frame.columns if not _fits_parquet(frame[[name]])]
        frame = frame.assign(**{name: _as_texts(frame[name]) for name in refused})
        frame.to_parquet(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(content.getbuffer())
    return path


def _fits_parquet(frame: Any) -> bool:
    try:
        frame.to_parquet(io.BytesIO(), index=False)
    except _REFUSED:
        return False
    return True


def _as_texts(series: Any) -> Any:
    return series.astype(object).map(str, na_action="ignore")
