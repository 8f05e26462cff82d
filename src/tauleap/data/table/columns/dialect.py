"""How a delimited text file is written, so that output has the format of the input."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tauleap.data.table.columns.fields import Fields, as_config

DELIMITERS = (",", "\t", ";", "|", " ")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1")
QUOTES = ('"', "'")
_LONGEST_CELL = 2**26
"""Characters; lines are limited to fewer where they are read."""
QUOTED = ("needed", "texts", "all")
"""Which cells are in quotes: those that need it, all but numbers, or all."""


@dataclass(frozen=True)
class Dialect:
    """Describe a delimited text file.

    Args:
        delimiter: The character between cells: a comma, tab, semicolon, bar or space. Default: a comma.
        header: Whether the first line has the names of the columns. Default: true.
        encoding: The encoding, by its Python name. Default: UTF-8.
        line_end: The end of a line. Default: a line feed.
        quote: The quotation mark, ``"`` or ``'``. Default: ``"``.
        escape: Whether a quotation mark inside a cell has a backslash before it; otherwise it is doubled. Default:
            false.
        quoted: Which cells are in quotes: ``"needed"``, ``"texts"`` (all but numbers) or ``"all"``. Default: needed.
        quoted_names: Whether all names of columns are in quotes. Default: false.
        space: Whether a space follows every delimiter. Default: false.
        announced: Whether a line such as ``sep=;`` comes first. Default: false.

    >>> Dialect.from_config(Dialect(";").config()).delimiter
    ';'
    """

    delimiter: str = ","
    header: bool = True
    encoding: str = "utf-8"
    line_end: str = "\n"
    quote: str = '"'
    escape: bool = False
    quoted: str = "needed"
    quoted_names: bool = False
    space: bool = False
    announced: bool = False

    def __post_init__(self) -> None:
        if self.delimiter not in DELIMITERS or self.delimiter == "":
            raise ValueError(f"delimiter must be one of {DELIMITERS}, got {self.delimiter!r}")
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, got {self.encoding!r}")
        if self.line_end not in ("\n", "\r\n", "\r"):
            raise ValueError(f"line_end must be '\\n', '\\r\\n' or '\\r', got {self.line_end!r}")
        if self.quote not in QUOTES:
            raise ValueError(f"quote must be one of {QUOTES}, got {self.quote!r}")
        if self.quoted not in QUOTED:
            raise ValueError(f"quoted must be one of {QUOTED}, got {self.quoted!r}")

    def rows(self, lines: Iterable[str], *, strict: bool = False) -> Iterator[list[str]]:
        """Yield the cells of lines by the csv module, also long ones.

        Args:
            lines: Lines with their ends.
            strict: Raise ``csv.Error`` where quotes are wrong. Default: false.

        >>> list(Dialect(quote="'").rows(["'a, b',2"]))
        [['a, b', '2']]
        """
        reader = csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            doublequote=not self.escape,
            escapechar="\\" if self.escape else None,
            skipinitialspace=True,
            strict=strict,
        )
        while True:
            # The limit belongs to the csv module as a whole: other code of the program keeps its own.
            limit = csv.field_size_limit(_LONGEST_CELL)
            try:
                row = next(reader)
            except StopIteration:
                return
            finally:
                csv.field_size_limit(limit)
            yield row

    def in_quotes(self, text: str) -> str:
        """Return a cell in quotes.

        Args:
            text: The text of the cell.

        >>> Dialect().in_quotes('5" pipe'), Dialect(escape=True).in_quotes('5" pipe')
        ('"5"" pipe"', '"5\\\\" pipe"')
        """
        inner = (
            text.replace("\\", "\\\\").replace(self.quote, f"\\{self.quote}")
            if self.escape
            else text.replace(self.quote, 2 * self.quote)
        )
        return f"{self.quote}{inner}{self.quote}"

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config("dialect", dict(self.__dict__))

    @classmethod
    def from_config(cls, config: object) -> Dialect:
        """Return the dialect that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no dialect.
        """
        names = ("delimiter", "header", "encoding", "line_end", "quote", "escape", "quoted", "quoted_names")
        fields = Fields(config, (*names, "space", "announced"), "a dialect")
        return cls(
            fields.text("delimiter", 1),
            fields.flag("header"),
            fields.text("encoding", 20),
            fields.text("line_end", 2),
            fields.text("quote", 1),
            fields.flag("escape"),
            fields.choice("quoted", QUOTED),
            fields.flag("quoted_names"),
            fields.flag("space"),
            fields.flag("announced"),
        )
