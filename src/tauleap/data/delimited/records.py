"""Cut delimited text into rows and continue after lines that are damaged."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator

from tauleap.data.columns.raw import Problem, TableError
from tauleap.data.delimited.sniff import prepare

LONGEST_LINE = 2**24
"""Characters of one line: 10,000 columns with 1,600 characters each."""
_LONGEST_RECORD = 1000
"""Lines of one row whose cells contain line breaks."""
_MOST_DAMAGED = 10_000
"""Lines with wrong quotes; with more, the file is not delimited text."""


class Lines:
    """Return the lines of a file one by one, with their numbers, and take lines back.

    Args:
        content: The bytes of the file.
        encoding: Its encoding.
        name: The file in messages.
        delimiter: The delimiter. Default: a comma.

    >>> lines = Lines(b"a\\nb\\n", "utf-8", "x.csv")
    >>> next(lines), lines.number
    ('a\\n', 1)
    """

    def __init__(self, content: bytes, encoding: str, name: str, delimiter: str = ",") -> None:
        self._file = io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
        self._again: deque[str] = deque()
        self.name, self.number, self.delimiter = name, 0, delimiter
        self.taken: list[str] = []

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
        self.taken.append(line)
        if len(self.taken) > _LONGEST_RECORD:
            raise csv.Error(f"a quote is not closed within {_LONGEST_RECORD:,} lines")
        return line if self.delimiter != " " else prepare([line], " ")[0]

    def give_back(self) -> str:
        """Return the first line that was taken since the last call of ``taken.clear()``, and take back the others."""
        first, *others = self.taken
        self._again.extendleft(reversed(others))
        self.number -= len(others)
        self.taken.clear()
        return first


TOO_LONG = "a cell has more than"
"""The beginning of what is wrong with a line whose cell is longer than the csv module reads."""


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
    delimiter, damaged = lines.delimiter, 0
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
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
        if not fault and len(lines.taken) > 1 and width is not None and len(row) != width:
            fault = "a quote is not closed"
        if fault:
            damaged += 1
            if damaged > _MOST_DAMAGED:
                problem = Problem(
                    f"more than {_MOST_DAMAGED:,} lines have wrong quotes", "check the quotes", line=number
                )
                raise TableError(lines.name, [problem])
            first = prepare([lines.give_back()], delimiter)[0]
            row = [cell.strip() for cell in first.rstrip("\r\n").split(delimiter)]
            # After an error the reader is in the middle of a row.
            reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
        yield number, row, fault


def _fault(error: csv.Error, lines: int) -> str:
    """Return the cause of an error, after the reader has taken a number of lines."""
    # An open quote makes one cell of the lines that follow, until that cell is too long.
    if lines == 1 and "field larger" in str(error):
        return f"{TOO_LONG} {csv.field_size_limit():,} characters"
    if lines > 1 or "unexpected end of data" in str(error) or "not closed" in str(error):
        return "a quote is not closed"
    return "a quote ends inside a cell"
