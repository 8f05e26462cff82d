"""Detect the delimiter, the decimal separator and the header of a delimited text file from its first lines."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tauleap.data.table.columns.cells import MISSING_MARKS, SOLITARY_MARKS
from tauleap.data.table.columns.date_text import date_format
from tauleap.data.table.columns.dialect import DELIMITERS, Dialect
from tauleap.data.table.columns.fields import short
from tauleap.data.table.columns.number_text import NumberFormat, is_number

_COMMA = NumberFormat(",")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_GROUPED = NumberFormat(".", ",")
_DATES = 5
"""Cells of a column that must be dates, so that it is one of dates for the search of the header."""


def split(lines: Sequence[str], dialect: Dialect) -> list[list[str]]:
    """Return the cells of lines, without empty lines and without complaint about quotes.

    Args:
        lines: Lines with their ends.
        dialect: The delimiter and the quotation mark.

    >>> split(["a, b\\n", '"x,y",2\\n'], Dialect())
    [['a', 'b'], ['x,y', '2']]
    """
    try:
        return [row for row in dialect.rows(prepare(lines, dialect.delimiter)) if row]
    except csv.Error:
        return [line.rstrip("\r\n").split(dialect.delimiter) for line in lines]


def prepare(lines: Sequence[str], delimiter: str) -> list[str]:
    """Return lines in which runs of spaces and tabs are one space, if the delimiter is a space.

    Args:
        lines: Lines with their ends.
        delimiter: The delimiter.

    >>> prepare(["1   2\\n"], " ")
    ['1 2\\n']
    """
    return [f"{' '.join(line.split())}\n" for line in lines] if delimiter == " " else list(lines)


def detect_delimiter(lines: Sequence[str], quotes: Dialect) -> str:
    """Return the delimiter that cuts the most lines into the same number of cells, two or more.

    A semicolon, tab or bar wins over a comma if the commas are decimal commas. Spaces count only between numbers.

    Args:
        lines: The first lines of the file.
        quotes: The quotation mark.

    Returns:
        The delimiter, a comma if there is only one column.

    >>> detect_delimiter(["a;b\\n", "1,5;2,5\\n"], Dialect()), detect_delimiter(["name\\n", "New York\\n"], Dialect())
    (';', ',')
    """
    name, *following = [line.strip() for line in lines] or [""]
    if "," not in name and following and all(map(_DECIMAL_COMMA.fullmatch, following)):
        return ";"  # one column of numbers such as 1,5
    best, best_score = ",", (0.0, 0.0)
    for delimiter in DELIMITERS:
        rows = split(lines, replace(quotes, delimiter=delimiter))
        if not rows:
            continue
        width, count = Counter(map(len, rows)).most_common(1)[0]
        if width < 2:
            continue
        cells = [cell for row in rows if len(row) == width for cell in row]
        body = cells[width:] or cells
        if delimiter == " " and (best_score[0] >= 0.5 or sum(map(is_number, body)) < 0.5 * len(body)):
            continue
        # Of two delimiters that fit equally, the right one leaves more numbers or words whole.
        whole = sum(not any(mark in cell for mark in "\t;|") for cell in cells) / len(cells)
        commas = delimiter == "," and any(
            len(found) >= 2 and all(len(row) == len(found) for row in split(lines, replace(quotes, delimiter=other)))
            for other in ("\t", ";", "|")
            for found in split(lines, replace(quotes, delimiter=other))[:1]
        )
        score = (round(count / len(rows), 2) - 0.5 * commas, whole)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def has_decimal_comma(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a column has numbers with decimal commas, such as 1,5.

    Args:
        rows: The first rows, without the header.

    >>> has_decimal_comma([["1,5", "a"], ["2", "b"]]), has_decimal_comma([["1,500"], ["2"]])
    (True, False)
    """
    for column in zip(*rows, strict=False):
        cells = [cell for cell in column if not is_missing(cell)]
        marked = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell.strip())]
        if marked and _COMMA.matches(cells).mean() >= 0.9 and not _GROUPED.matches(marked).all():
            return True
    return False


def detect_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[bool, str]:
    """Return whether the first row has the names of the columns.

    The first row has names if a column of numbers or dates begins with a word. It has values if such a column begins
    with a number or date, or if a column of words begins with a word that occurs again. 0, 1, 2, ... and consecutive
    years are names. In doubt, the first row has names.

    Args:
        first: The first row.
        rows: The rows after it.

    Returns:
        The answer and the reason.

    >>> detect_header(["age", "sex"], [["31", "m"]])[0], detect_header(["30", "m"], [["31", "m"]])[0]
    (True, False)
    """
    for_, against = _signs(first, rows)
    if not for_ and _is_counting(first, against):
        return True, "the first line has consecutive numbers"
    if len(against) > len(for_):
        return False, f"the first line has values such as {short(against[0])}"
    if for_:
        return True, f"{for_[0]!r} stands above numbers or dates"
    return True, "the first line has words that do not occur again"


def is_surely_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row must have the names: words above numbers or dates, and no cell that is a value.

    Args:
        first: The first row.
        rows: The rows after it.

    >>> is_surely_header(["age", "sex"], [["31", "m"]]), is_surely_header(["red", "m"], [["blue", "f"]])
    (True, False)
    """
    for_, against = _signs(first, rows)
    return bool(for_) and not against


def _signs(first: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the cells of the first row that must be names, and those that must be values."""
    for_, against = [], []
    for place, name in enumerate(first):
        column = [row[place] for row in rows if place < len(row) and not is_missing(row[place])]
        if is_missing(name) or not column:
            continue
        numbers = sum(map(is_number, column)) >= 0.9 * len(column)
        if numbers:
            (against if is_number(name) else for_).append(name)
        elif is_number(name) or (column.count(name) >= 1 and len(set(column)) < len(column)) or name in column[:1]:
            against.append(name)
        elif all(map(_is_date, column[:_DATES])):
            (against if _is_date(name) else for_).append(name)
    return for_, against


def _is_date(cell: str) -> bool:
    return date_format([cell]) is not None


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty or has a mark for missing values.

    Args:
        cell: The text of the cell.

    >>> is_missing("?"), is_missing("x")
    (True, False)
    """
    return cell.strip() in MISSING_MARKS or cell.strip().lower() in SOLITARY_MARKS


def _is_counting(first: Sequence[str], against: Sequence[str]) -> bool:
    """Return whether numbers in the first row are names: 0, 1, 2, ... in all columns, or consecutive years."""
    values = [int(cell) for cell in first if cell.strip().isdecimal() and len(cell) < 10]
    if len(values) < 2 or len(values) < len(against) or any(b - a != 1 for a, b in pairwise(values)):
        return False
    return (len(values) == len(first) and values[0] in (0, 1)) or 1900 <= values[0] <= values[-1] <= 2100
