"""A table before its columns are encoded, and the problems that were found in it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tauleap._files.printable import one_line
from tauleap.data.table.columns.cells import Cells
from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.frame_types import FrameType

_MOST_SHOWN = 50
"""Problems in one message; the others are counted."""


@dataclass(frozen=True)
class Problem:
    """Describe one problem of a table: where it is, what it is, and what to do.

    Args:
        message: The problem and its consequence.
        remedy: What the user can do.
        line: The line of the file, from 1. Default: the whole file.
        column: The name of the column. Default: all columns.

    >>> print(Problem("'x' is not a number and counts as missing", "correct the cell", line=7, column="age"))
    line 7, column 'age': 'x' is not a number and counts as missing; correct the cell
    """

    message: str
    remedy: str
    line: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        places = [] if self.line is None else [f"line {self.line:,}"]
        places += [] if self.column is None else [f"column {self.column!r}"]
        where = f"{', '.join(places)}: " if places else ""
        return one_line(f"{where}{self.message}; {self.remedy}")


class TableError(ValueError):
    """Report a table that cannot be used, with all of its problems.

    Args:
        name: The file or table in messages.
        problems: All problems.

    >>> str(TableError("a.csv", [Problem("there are no rows", "add rows")]))
    'a.csv cannot be used: there are no rows; add rows'
    """

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        texts = [str(problem) for problem in problems[:_MOST_SHOWN]]
        if len(problems) > _MOST_SHOWN:
            texts.append(f"and {len(problems) - _MOST_SHOWN:,} more problems")
        lines = texts[0] if len(texts) == 1 else "".join(f"\n  {text}" for text in texts)
        super().__init__(f"{one_line(name)} cannot be used: {lines}")


@dataclass(frozen=True, eq=False)
class RawTable:
    """Hold the columns of a table as they were read.

    Args:
        columns: The cells of each column by name, in order.
        name: The file or table in messages. Default: ``"the table"``.
        problems: The problems that were found so far. Default: none.
        lines: Per row, its line in the file. Default: none.
        decimal: The decimal separator of all numbers. Default: None, each column may have its own.
        frame_types: The pandas types of the columns by name. Default: none, the table is a file.
        missing: The texts of missing values that the user gave. Default: None, they are detected.
        dialect: How the file is written. Default: none, the table does not come from a file.
        frame: The pandas frame with the same rows. Default: none, the table is a file.
        headers: The names in the file of columns that were renamed, because names must differ. Default: none.
        unused_marks: Texts of missing values that the user gave and that no cell has. Default: none.
        note: Why the first line of the file is taken as values, for the user. Default: none.

    >>> RawTable({"a": Cells.from_texts(["1", "2"])}).num_rows
    2
    """

    columns: Mapping[str, Cells]
    name: str = "the table"
    problems: tuple[Problem, ...] = ()
    lines: np.ndarray | None = None
    decimal: str | None = None
    frame_types: Mapping[str, FrameType] = field(default_factory=dict)
    missing: frozenset[str] | None = None
    dialect: Dialect | None = None
    frame: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    unused_marks: tuple[str, ...] = ()
    note: str = ""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return next((cells.num_rows for cells in self.columns.values()), 0)

    def drop_empty_rows(self) -> RawTable:
        """Return the table without the rows that have no value at all, and with a problem that counts them."""
        if not self.columns:
            return self
        empty = np.all([cells.codes < 0 for cells in self.columns.values()], axis=0)
        if not empty.any():
            return self
        first = None if self.lines is None else int(self.lines[empty][0])
        number = int(empty.sum())
        message = f"{number:,} rows have no value and are left out, this is the first"
        message = message if number > 1 else "the row has no value and is left out"
        problem = Problem(message, "no action is needed", line=first)
        return replace(self.select(np.flatnonzero(~empty)), problems=(*self.problems, problem))

    def select(self, rows: np.ndarray) -> RawTable:
        """Return some rows.

        Args:
            rows: The positions of the rows.
        """
        return replace(
            self,
            columns={name: replace(cells, codes=cells.codes[rows]) for name, cells in self.columns.items()},
            lines=None if self.lines is None else self.lines[rows],
            frame=None if self.frame is None else self.frame.iloc[rows],
        )

    def without(self, names: Collection[str]) -> RawTable:
        """Return the table without some columns.

        Args:
            names: The columns to leave out.
        """
        return replace(self, columns={name: cells for name, cells in self.columns.items() if name not in names})

    def line(self, row: int) -> int | None:
        """Return the line of a row in its file, None if the table does not come from a file.

        Args:
            row: The row, from 0.
        """
        return None if self.lines is None else int(self.lines[row])


def type_remedy(name: str, type_: str = "category") -> str:
    """Return how a user gives the type of a column.

    Args:
        name: The name of the column.
        type_: The type. Default: category.

    >>> type_remedy("zip code")
    "write --type 'zip code=category' on the command line, types={'zip code': 'category'} in Python"
    """
    word = shlex.quote(f"{name}={type_}")
    return f"write --type {word} on the command line, types={{{name!r}: {type_!r}}} in Python"
