"""Detect how the cells of a delimited text file are quoted, from its first lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace

from tauleap.data.table.columns.cells import MISSING_MARKS
from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.number_text import is_number

_SINGLE = re.compile(r"(?:^|[,;\t|]) *'(?:[^']|'')*' *(?=[,;\t|]|$)")
_MOST = 0.9
"""Fraction of cells that decides how cells are written. Chosen: a few cells may differ."""


def detect_mark(lines: Sequence[str]) -> str:
    """Return the quotation mark of a file: a single quote if half of the lines have a cell in single quotes.

    It is a double quote if any line has one, and by default.

    Args:
        lines: The first lines of the file.

    >>> detect_mark(["a,b", "1,'x, y'"]), detect_mark(["a,b", "1,it's"])
    ("'", '"')
    """
    if any('"' in line for line in lines):
        return '"'
    single = sum(_SINGLE.search(line.rstrip("\r\n")) is not None for line in lines)
    return "'" if single and single >= 0.5 * len(lines) else '"'


def has_escapes(lines: Sequence[str], dialect: Dialect) -> bool:
    """Return whether a backslash before a quotation mark in a cell is an escape character.

    It is if some line has mismatched quotes without escapes, and no line has them with escapes.

    Args:
        lines: The first lines of the file.
        dialect: The delimiter and the quotation mark.

    >>> has_escapes([r'1,"say \\"hi\\", Ada"'], Dialect()), has_escapes([r'1,"C:\\"'], Dialect())
    (True, False)
    """
    marked = [line for line in lines if f"\\{dialect.quote}" in line]
    wrong = any(_is_wrong(line, dialect) for line in marked)
    return wrong and not any(_is_wrong(line, replace(dialect, escape=True)) for line in marked)


def with_habits(dialect: Dialect, lines: Sequence[str], width: int) -> Dialect:
    """Return the dialect with the fields that depend on all cells: which are in quotes, and spaces after delimiters.

    Args:
        dialect: The delimiter and the quotation mark, and whether the first line has the names of the columns.
        lines: The first lines of the table.
        width: The number of cells of a row.

    >>> found = with_habits(Dialect(";"), ["a; b", '1; "x"'], 2)
    >>> found.quoted, found.quoted_names, found.space
    ('texts', False, True)
    """
    if dialect.delimiter == " ":
        return dialect
    rows = [row for line in lines if len(row := _written(line.rstrip("\r\n"), dialect)) == width]
    after = [cell[:1] == " " for row in rows for cell in row[1:]]
    stripped = [[cell.strip(" ") for cell in row] for row in rows]
    names, body = stripped[: dialect.header], stripped[dialect.header :]
    return replace(
        dialect,
        quoted=_quoted_cells([cell for row in body for cell in row], dialect),
        quoted_names=bool(names) and _fraction_quoted(names[0], dialect) >= _MOST,
        space=bool(after) and sum(after) >= _MOST * len(after),
    )


def _quoted_cells(cells: Sequence[str], dialect: Dialect) -> str:
    if cells and _fraction_quoted(cells, dialect) >= _MOST:
        return "all"
    texts = [cell for cell in cells if cell.strip(dialect.quote) not in MISSING_MARKS and not is_number(cell)]
    return "texts" if texts and _fraction_quoted(texts, dialect) >= _MOST else "needed"


def _is_wrong(line: str, dialect: Dialect) -> bool:
    try:
        list(dialect.rows([line], strict=True))
    except csv.Error:
        return True
    return False


def _written(line: str, dialect: Dialect) -> list[str]:
    """Return the cells of a line as they are written, with their quotes and spaces."""
    mark, delimiter = re.escape(dialect.quote), re.escape(dialect.delimiter)
    inner = rf"(?:[^{mark}\\]|\\.)*" if dialect.escape else rf"(?:[^{mark}]|{mark}{mark})*"
    cell = rf" *{mark}{inner}{mark} *(?={delimiter}|$)|[^{delimiter}]*"
    found, place = [], 0
    pattern = re.compile(cell)
    while place <= len(line):
        match = pattern.match(line, place)
        if match is None:
            break
        found.append(match[0])
        place = match.end() + 1
    return found


def _fraction_quoted(cells: Sequence[str], dialect: Dialect) -> float:
    return sum(len(cell) > 1 and cell[0] == cell[-1] == dialect.quote for cell in cells) / len(cells)
