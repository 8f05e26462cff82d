"""Split delimited text into rows, also after lines with wrong quotes.

A quote that is not closed makes the csv module read all later lines as one cell. Then the first line is split without
regard to quotes, and the lines after it are read again.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator

from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.raw import Problem, TableError
from tauleap.data.table.csv.sniff import prepare, split

LONGEST_LINE = 2**24
"""The most characters of one line: 10,000 columns with 1,600 characters each."""
_LONGEST_RECORD = 2**20
"""The most characters of one row whose cells contain line breaks."""
_MOST_DAMAGED = 10_000
"""The most lines with wrong quotes; a file with more is not delimited text."""
_MOST_REREAD = 2**28
"""The most characters that are read again after wrong quotes: about ten seconds."""
_LINES_TO_CHECK = 20
"""A row with this many inner lines is checked: they may be rows after a quote that is not closed."""


class Lines:
    """Iterate over the lines of a file and count them; lines can be given back, to be read again.

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
        self._given_back: deque[str] = deque()
        self.name, self.number, self.dialect = name, 0, dialect or Dialect()
        self.taken: list[str] = []
        """The lines that were read for the current row; ``records`` clears it before each row."""
        self._characters = 0  # of the lines in taken

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._given_back.popleft() if self._given_back else self._file.readline(LONGEST_LINE + 1)
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
        self._given_back.extendleft(reversed(others))
        self.number -= len(others)
        self.taken.clear()
        return first


def records(lines: Lines, width: int | None = None) -> Iterator[tuple[int, list[str], str]]:
    """Yield the rows of a file.

    Args:
        lines: The lines.
        width: The number of cells of a row. It helps to recognise quotes that are not closed. Default: unknown.

    Yields:
        The number of the row's first line, its cells, and the fault of its quotes, which is empty for most rows.

    Raises:
        TableError: Too many lines have wrong quotes.

    >>> list(records(Lines(b'a,b\\n"x,1\\ny,2\\n', "utf-8", "x.csv"), 2))[1:]
    [(2, ['"x', '1'], 'a quote is not closed'), (3, ['y', '2'], '')]
    """
    dialect, damaged, reread = lines.dialect, 0, 0
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
            reread += sum(map(len, lines.taken[1:]))
            if damaged > _MOST_DAMAGED or reread > _MOST_REREAD:
                problem = Problem(f"{damaged:,} lines or more have wrong quotes", "check the quotes", line=number)
                raise TableError(lines.name, [problem])
            first = prepare([lines.give_back()], dialect.delimiter)[0]
            row = [cell.strip() for cell in first.rstrip("\r\n").split(dialect.delimiter)]
            # A new reader: after an error the old one is in the middle of a row.
            reader = dialect.rows(lines, strict=True)
        yield number, row, fault


def _swallows_rows(lines: Lines, row: list[str], width: int) -> bool:
    """Return whether a row of several lines has a quote that is not closed, so that its cell contains later rows."""
    if len(row) != width:
        return True
    inner = lines.taken[1:-1]
    if width == 1 or len(inner) < _LINES_TO_CHECK:
        return False
    return sum(len(cells) == width for cells in split(inner, lines.dialect)) > 0.5 * len(inner)


def _fault(error: csv.Error, lines: int) -> str:
    """Return the cause of an error of the csv module, for a row of which ``lines`` lines were read."""
    if lines > 1 or "unexpected end of data" in str(error) or "not closed" in str(error):
        return "a quote is not closed"
    return "a quote ends inside a cell"
