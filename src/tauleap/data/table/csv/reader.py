"""Read delimited text into columns and report all problems at once.

The reader is built on Python's csv module, although pandas and pyarrow are faster. Measured on 100,000 rows of 30
columns (22 MB, one core, ``diagnostics/table_round_trip.py --only readers``): this reader 1.9 s, pandas 0.4 s with all
cells as text, pyarrow 0.2 s with distinct values.
The reason is damaged files. After a quote that is not closed, pandas raises an error even with ``on_bad_lines="warn"``,
and pyarrow loses all following rows; this reader reports the line and continues. Both are also optional packages here.
Cells are stored once per distinct value.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np

from tauleap.data import limits
from tauleap.data.table.columns.cells import MISSING_MARKS, Cells, objects
from tauleap.data.table.columns.dialect import DELIMITERS, Dialect
from tauleap.data.table.columns.encoder import MOST_COLUMNS
from tauleap.data.table.columns.fields import short
from tauleap.data.table.columns.raw import Problem, RawTable, TableError
from tauleap.data.table.csv.preamble import (
    announced_delimiter,
    count_comments,
    count_titles,
    is_comment,
    lines_left_out,
)
from tauleap.data.table.csv.quotes import detect_mark, has_escapes, with_habits
from tauleap.data.table.csv.records import Lines, records
from tauleap.data.table.csv.sniff import detect_delimiter, detect_header, has_decimal_comma, split
from tauleap.data.table.csv.text_encoding import detect_encoding, encoding_name

_SAMPLE_LINES = 200
_SAMPLE_CHARACTERS = 2**22
_CHUNK_ROWS = 4096
_MOST_PROBLEMS = 1000
MOST_DISTINCT = 2**24
"""Distinct cells of all columns together: they need about 2 GB."""


def read_delimited(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Collection[str] | None = None,
) -> RawTable:
    """Return the columns of a delimited text file: .csv, .tsv, .data, or any other name.

    Args:
        path: The file.
        delimiter: A comma, tab, semicolon, bar or space. Default: detected.
        header: Whether the first line has the names of the columns. Default: detected.
        decimal: The decimal separator, ``"."`` or ``","``. Default: detected per column.
        encoding: UTF-8, UTF-16, Windows-1252 or Latin-1 by its Python name. Default: detected.
        missing: Texts of missing values beside the empty cell. Default: NA, NaN, null and the like in every column, and
            "?", "-" or "unknown" in columns of numbers or dates.

    Returns:
        The table. Its ``problems`` name lines that were left out or repaired.

    Raises:
        TableError: The file cannot be used; it lists all problems.
        ValueError: An argument is not valid, or the file is too large or empty.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people")
    ...     _ = path.write_text("name;height\\nAda;1,65\\nAlan;1,78\\n")
    ...     raw = read_delimited(path)
    >>> list(raw.columns), raw.dialect.delimiter, raw.decimal
    (['name', 'height'], ';', ',')
    """
    path = Path(path)
    if wrong := option_problems(delimiter=delimiter, decimal=decimal, encoding=encoding):
        raise ValueError("; ".join(problem.message for problem in wrong.values()))
    if isinstance(missing, str):
        missing = (missing,)
    content = limits.contents(path)
    name = str(path)
    encoding, problems = detect_encoding(content, name, encoding)
    numbered = list(_head(content, encoding, name))
    # The line for spreadsheet programs is the first one, or the first after comments.
    place = next((i for i, (_, line) in enumerate(numbered) if not is_comment(line)), 0)
    announced = announced_delimiter(numbered[place][1], name, numbered[place][0]) if numbered else None
    if announced is not None:
        del numbered[place]
    sample, numbers = [line for _, line in numbered], [number for number, _ in numbered]
    table = [line for line in sample if not is_comment(line)] or sample
    dialect = Dialect(encoding=encoding, quote=detect_mark(table), announced=announced is not None)
    delimiter = delimiter or announced or ("\t" if path.suffix.lower() == ".tsv" else detect_delimiter(table, dialect))
    dialect = replace(dialect, delimiter=delimiter)
    dialect = replace(dialect, escape=has_escapes(table, dialect))
    if not (rows := split(table, dialect)):
        raise TableError(name, [*problems, Problem("there are no rows", "add a header and rows")])
    width = _width(rows)
    if width > MOST_COLUMNS:
        raise TableError(name, [Problem(f"there are {width:,} columns, more than {MOST_COLUMNS:,}", "remove some")])
    comments = count_comments(sample, dialect, width)
    rows = [_without_empty_ends(row, width) for row in split(sample[comments:], dialect)]
    titles = count_titles(rows, width) if header is not False else 0
    problems = [*problems, *lines_left_out(comments, titles, numbers)]
    rows, sample = rows[titles:], sample[comments:]
    names, header, shift, note = _names(rows, width, header)
    reading = _Reading(name, width, header, shift, problems, dialect.announced + comments + titles)
    labels = reading.labels(names, numbers[comments + titles])
    lines = Lines(content, encoding, name, dialect)
    columns = reading.columns(records(lines, width), single=width == 1)
    marks = frozenset(MISSING_MARKS if missing is None else {"", *(mark.strip() for mark in missing)})
    cells = {label: column.without(marks) for label, column in zip(labels, columns, strict=True)}
    unused = () if missing is None else _unused_marks(missing, columns)
    body = [row for row in rows[header:] if len(row) == width]
    comma = decimal == "," or (decimal is None and has_decimal_comma(body))
    line_end = "\r\n" if sample[0].endswith("\r\n") else "\r" if sample[0].endswith("\r") else "\n"
    return RawTable(
        cells,
        name,
        tuple(reading.problems),
        np.array(reading.lines, dtype=np.int64),
        "," if comma else decimal,
        missing=None if missing is None else marks,
        dialect=with_habits(replace(dialect, header=header, line_end=line_end), sample[titles:], width),
        headers={label: name for label, name in zip(labels, names, strict=True) if header and name.strip() != label},
        unused_marks=unused,
        note=note,
    )


def option_problems(
    *, delimiter: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> dict[str, Problem]:
    """Return what is wrong with arguments of :func:`read_delimited`, by their name.

    Args:
        delimiter: The delimiter. Default: detected.
        decimal: The decimal separator. Default: detected.
        encoding: The encoding. Default: detected.

    >>> list(option_problems(delimiter="x", decimal=","))
    ['delimiter']
    """
    found = {}
    if delimiter is not None and delimiter not in DELIMITERS:
        message = f"delimiter must be one of {DELIMITERS}, got {delimiter!r}"
        found["delimiter"] = Problem(message, "write --delimiter tab ('\\t' in Python) for a tab, or leave it out")
    if decimal not in (None, ".", ","):
        message = f"decimal must be '.' or ',', got {decimal!r}"
        found["decimal"] = Problem(message, "write --decimal , for 1,5, or leave it out")
    try:
        encoding_name("utf-8" if encoding is None else encoding)
    except ValueError as error:
        found["encoding"] = Problem(str(error), "write --encoding latin-1, or leave it out")
    return found


class _Reading:
    """Collect rows column by column, and the problems of the file."""

    def __init__(
        self, name: str, width: int, header: bool, shift: bool, problems: list[Problem], preamble: int
    ) -> None:
        self.name, self.width, self.header, self.shift, self.preamble = name, width, header, shift, preamble
        self.problems, self.lines = list(problems), array("q")
        self.left_out, self.silent = 0, 0

    def labels(self, names: Sequence[str], line: int) -> list[str]:
        """Return names that differ and are not empty, which come from a line of the file."""
        used: Counter[str] = Counter()
        result: list[str] = []
        for place, name in enumerate(names):
            label = name.strip() or f"column_{place + 1}"
            if not name.strip() and self.header:
                self.report(f"column {place + 1} has no name and is called {label}", "write a name", line)
            used[label] += 1
            if label in result:
                taken = {*result, *(other.strip() for other in names)}
                label = next(text for i in range(2, len(names) + 3) if (text := f"{label}_{i}") not in taken)
                message = f"column {place + 1} has the name of another, {short(name.strip())}, and is called {label}"
                self.report(message, "write different names", line)
            result.append(label)
        return result

    def report(self, message: str, remedy: str, line: int | None) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Problem(message, remedy, line=line))
        else:
            self.silent += 1

    def columns(self, rows: Iterator[tuple[int, list[str], str]], *, single: bool) -> list[Cells]:
        # A text that is not yet in its table gets the next number: no pass in Python over the cells.
        tables: list[dict[str, int]] = [defaultdict(count().__next__) for _ in range(self.width)]
        codes: list[list[np.ndarray]] = [[] for _ in tables]
        checked = self._checked(rows, single)
        while chunk := list(islice(checked, _CHUNK_ROWS)):
            for table, parts, column in zip(tables, codes, zip(*chunk, strict=True), strict=True):
                parts.append(np.fromiter(map(table.__getitem__, column), np.int32, len(column)))
            if len(self.lines) * self.width > limits.VALUES:
                problem = Problem(f"there are more than {limits.VALUES:,} cells", "write a part of it to another file")
                raise TableError(self.name, [problem])
            if sum(map(len, tables)) > MOST_DISTINCT:
                remedy = "write a part of it to a file of its own, or remove columns of free text from the file"
                problem = Problem(f"there are more than {MOST_DISTINCT:,} distinct cells", remedy, line=self.lines[-1])
                raise TableError(self.name, [problem])
        if self.silent:
            self.problems.append(Problem(f"{self.silent:,} more lines have problems", "correct the first ones"))
        if not self.lines or self.left_out > len(self.lines):
            if self.left_out:
                what, remedy = "most lines do not have the same number of cells", "check the delimiter and the quotes"
            else:
                what, remedy = "there are no rows", "add rows"
                if self.header:
                    what += " after the names of the columns"
                    remedy += ", or write --no-header (header=False in Python) if the first line is a row"
            raise TableError(self.name, [Problem(what, remedy), *self.problems])
        return [
            Cells("text", objects(list(table)), np.concatenate(parts))
            for table, parts in zip(tables, codes, strict=True)
        ]

    def _checked(self, rows: Iterator[tuple[int, list[str], str]], single: bool) -> Iterator[list[str]]:
        awaits_header, preamble = self.header, self.preamble
        for line, row, fault in rows:
            if preamble:
                preamble -= bool(row)
                continue
            if not row:
                if not single or awaits_header:
                    continue
                row = [""]
            row = _without_empty_ends(row, self.width)
            if awaits_header and len(row) in (self.width, self.width - self.shift):
                awaits_header = False
                continue
            if len(row) != self.width:
                self.left_out += 1
                cause = f"{fault}, and " if fault else ""
                number = "is 1 cell" if len(row) == 1 else f"are {len(row):,} cells"
                message = f"{cause}there {number} instead of {self.width:,}; the line is left out"
                self.report(message, "add or remove cells, or write cells with the delimiter in quotes", line)
                continue
            if fault:
                self.report(f"{fault}; the line is read without quotes", 'write a quote inside a cell as ""', line)
            self.lines.append(line)
            yield row


def _unused_marks(missing: Collection[str], columns: Sequence[Cells]) -> tuple[str, ...]:
    absent = {mark.strip() for mark in missing} - {""}
    for column in columns:
        if not absent:
            break
        absent -= {text.strip() for text in column.values.tolist()}
    return tuple(sorted(absent))


def _head(content: bytes, encoding: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield the first lines of a file that are not empty and their numbers; fewer if they are long."""
    lines, characters = Lines(content, encoding, name), 0
    for line in lines:
        lines.taken.clear()
        if line.strip():
            yield lines.number, line
        characters += len(line)
        if lines.number >= _SAMPLE_LINES or characters > _SAMPLE_CHARACTERS:
            return


def _without_empty_ends(row: list[str], width: int) -> list[str]:
    """Return a row without the empty cells after the last column, as spreadsheet programs write them."""
    return row[:width] if len(row) > width and not any(map(str.strip, row[width:])) else row


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of cells of most rows, without one that is empty in every row but the first."""
    width = Counter(map(len, rows)).most_common(1)[0][0]
    trailing = len(rows[0]) == width - 1 and all(not row[-1].strip() for row in rows[1:] if len(row) == width)
    return width - 1 if trailing and width > 1 else width


def _names(rows: list[list[str]], width: int, header: bool | None) -> tuple[list[str], bool, bool, str]:
    """Return the names, whether they are in the file, whether the first column has no name, and a note on a doubt."""
    first = next((row for row in rows if len(row) in (width, width - 1)), rows[0])
    body = [row for row in rows[rows.index(first) + 1 :] if len(row) >= width]
    if len(first) == width - 1 and header is not False and body and width > 1:
        found, _ = detect_header(["", *first], body)
        if found:
            return ["", *first], True, True, ""
    full = next((row for row in rows if len(row) == width), ["" for _ in range(width)])
    body = [row[:width] for row in rows[rows.index(full) + 1 :] if len(row) >= width] if full in rows else []
    note = ""
    if header is None:
        header, reason = detect_header(full, body)
        if not header:
            note = f"{reason}: no names of columns; write --header (header=True in Python) if it has the names"
    return (full, True, False, "") if header else ([""] * width, False, False, note)
