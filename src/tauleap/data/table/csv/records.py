"""Cut delimited text into rows and continue after lines that are damaged."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator

from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.raw import Problem, TableError
from tauleap.data.table.csv.sniff import prepare, split

LONGEST_LINE = 2**24
"""Characters of one line: 10,000 columns with 1,600 characters each."""
_LONGEST_RECORD = 2**20
"""Characters of one row whose cells contain line breaks."""
_MOST_DAMAGED = 10_000
"""Lines with wrong quotes; with more, the file is not delimited text."""
_MOST_AGAIN = 2**28
"""Characters that are read a second time after wrong quotes: about ten seconds."""
_LINES_OF_A_CELL = 20
"""Lines of one row from which it is checked that they are not rows themselves."""


class Lines:
    """Iterate over the lines of a file with their numbers; lines that are given back are read again.

    Args:
        content: The bytes of the file.
        encoding: Its encoding.
        name: The file in messages.
        dialect: The delimiter and the quotation mark. Default: a comma and double quotes.

    >>> lines = Lines(b"a\\nb\\n", "utf-8", "x.csv")
    >>> next(lines), lines.number
    ('a\\n', 1)
    """

    def __init__(self, content: bytes, encoding: str, name: str, dialect: Dialect | None = None) -> None:
        self._file = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
        self._again: deque[str] = deque()
        self.name, self.number, self.dialect = name, 0, dialect or Dialect()
        self.taken: list[str] = []
        self._characters = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._file.readline(LONGEST_LINE + 1)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) > LONGEST_LINE:
            problem = Problem(f"the line has more than {LONGEST_LINE:,} characters", "check it", line=self.number)
            raise TableError(self.name, [problem])
        self._characters = self._characters + len(line) if self.taken else len(line)
        self.taken.append(line)
        if len(self.taken) > 1 and self._characters > _LONGEST_RECORD:
            raise csv.Error(f"a quote is not closed within {_LONGEST_RECORD:,} characters")
        return line if self.dialect.delimiter != " " else prepare([line], " ")[0]

    def give_back(self) -> str:
        """Return the first line of ``taken``, and put the others back, so that they are read again."""
        first, *others = self.taken
        self._again.extendleft(reversed(others))
        self.number -= len(others)
        self.taken.clear()
        return first


def records(lines: Lines, width: int | None = None) -> Iterator[tuple[int, list[str], str]]:
    """Yield the rows of a file.

    Args:
        lines: The lines.
        width: The number of cells of a row, if known: it helps to recognise quotes that are not closed.

    Yields:
        The number of the row's first line, its cells, and what is wrong with its quotes, empty if nothing is.

    Raises:
        TableError: Too many lines have wrong quotes.

    >>> list(records(Lines(b'a,b\\n"x,1\\ny,2\\n', "utf-8", "x.csv"), 2))[1:]
    [(2, ['"x', '1'], 'a quote is not closed'), (3, ['y', '2'], '')]
    """
    dialect, damaged, again = lines.dialect, 0, 0
    reader = dialect.rows(lines, strict=True)
    while True:
        lines.taken.clear()
        fault = ""
        row: list[str] = []
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fault = _fault(error, len(lines.taken))
        number = lines.number - len(lines.taken) + 1
        if not fault and len(lines.taken) > 1 and width is not None and _swallows_rows(lines, row, width):
            fault = "a quote is not closed"
        if fault:
            damaged += 1
            again += sum(map(len, lines.taken[1:]))
            if damaged > _MOST_DAMAGED or again > _MOST_AGAIN:
                problem = Problem(f"{damaged:,} lines or more have wrong quotes", "check the quotes", line=number)
                raise TableError(lines.name, [problem])
            first = prepare([lines.give_back()], dialect.delimiter)[0]
            row = [cell.strip() for cell in first.rstrip("\r\n").split(dialect.delimiter)]
            # After an error the reader is in the middle of a row.
            reader = dialect.rows(lines, strict=True)
        yield number, row, fault


def _swallows_rows(lines: Lines, row: list[str], width: int) -> bool:
    """Return whether a row of several lines has a cell that was not closed, which contains the rows after it."""
    if len(row) != width:
        return True
    inner = lines.taken[1:-1]
    if width == 1 or len(inner) < _LINES_OF_A_CELL:
        return False
    return sum(len(cells) == width for cells in split(inner, lines.dialect)) > 0.5 * len(inner)


def _fault(error: csv.Error, lines: int) -> str:
    """Return the cause of an error, after the reader has taken a number of lines."""
    if lines > 1 or "unexpected end of data" in str(error) or "not closed" in str(error):
        return "a quote is not closed"
    return "a quote ends inside a cell"
