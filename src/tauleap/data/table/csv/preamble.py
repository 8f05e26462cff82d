"""Lines before a table: the delimiter for spreadsheet programs, comments, and titles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tauleap.data.table.columns.dialect import DELIMITERS, Dialect
from tauleap.data.table.columns.raw import Problem, TableError
from tauleap.data.table.csv.sniff import detect_header, is_surely_header, split

_ANNOUNCED = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_MOST_TITLES = 10
"""Lines of titles above the names of the columns at most."""


def announced_delimiter(line: str, name: str, number: int = 1) -> str | None:
    """Return the delimiter that a line for spreadsheet programs announces, or None for any other line.

    Args:
        line: The first line of the file that is not a comment.
        name: The file in messages.
        number: The number of the line. Default: 1.

    Raises:
        TableError: The delimiter is one that is not supported.

    >>> announced_delimiter("sep=;\\n", "a.csv"), announced_delimiter("a;b\\n", "a.csv")
    (';', None)
    """
    found = _ANNOUNCED.fullmatch(line.rstrip("\r\n"))
    if found is None:
        return None
    if found[1] not in DELIMITERS:
        message = f"the line announces the delimiter {found[1]!r}, which is not one of {DELIMITERS}"
        raise TableError(name, [Problem(message, "save the table with a comma as delimiter", line=number)])
    return found[1]


def count_comments(lines: Sequence[str], dialect: Dialect, width: int) -> int:
    """Return how many lines before the table are comments: they begin with #, and the last is no header.

    Args:
        lines: The first lines of the file.
        dialect: The delimiter and the quotation mark.
        width: The number of cells of a row.

    >>> lines = ["# made by hand\\n", "a,b\\n", "1,2\\n"]
    >>> count_comments(lines, Dialect(), 2), count_comments(["#a,b\\n", "1,2\\n"], Dialect(), 2)
    (1, 0)
    >>> count_comments(["# made by hand, today\\n", *lines[1:]], Dialect(), 2)
    1
    """
    leading = next((number for number, line in enumerate(lines) if not is_comment(line)), 0)
    # The last of these lines may have the names, as in "#chrom,start", if the next line does not have them.
    names = leading > 0 and any(len(row) == width for row in split([lines[leading - 1]], dialect))
    first, *rows = split(lines[leading:], dialect) or [[]]
    return leading - (names and not is_surely_header(first, rows))


def is_comment(line: str) -> bool:
    """Return whether a line begins with #.

    Args:
        line: The line.
    """
    return line.lstrip().startswith("#")


def count_titles(rows: Sequence[Sequence[str]], width: int) -> int:
    """Return how many rows above the names of the columns are titles: at most half of their cells have a text.

    Args:
        rows: The first rows of the file.
        width: The number of cells of a row.

    >>> count_titles([["Sales 2024", ""], ["", ""], ["town", "sold"], ["Ulm", "7"], ["Bonn", "9"]], 2)
    2
    """
    first = next((place for place, row in enumerate(rows) if len(row) == width and all(map(str.strip, row))), 0)
    if not 0 < first <= _MOST_TITLES:
        return 0
    above = rows[:first]
    if any(len(row) != width or 2 * sum(bool(cell.strip()) for cell in row) > width for row in above):
        return 0
    body = [row for row in rows[first + 1 :] if len(row) == width]
    is_names = bool(body) and len(set(rows[first])) == width and detect_header(rows[first], body)[0]
    return first if is_names else 0


def lines_left_out(comments: int, titles: int, numbers: Sequence[int]) -> list[Problem]:
    """Return the problems of a file that has comments or titles before its table.

    Args:
        comments: The number of comments.
        titles: The number of titles after them.
        numbers: The numbers of the first lines.
    """
    found = []
    if comments:
        what = f"{comments} lines begin with # and are comments"
        what = what if comments > 1 else "the line begins with # and is a comment"
        found.append(Problem(what, "remove the # if the line has the names", line=numbers[0]))
    if titles:
        what = f"{titles} lines are titles" if titles > 1 else "the line is a title"
        what += " above the names of the columns, and left out"
        found.append(Problem(what, "no action is needed", line=numbers[comments]))
    return found
