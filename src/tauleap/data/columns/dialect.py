"""How a delimited text file is written, so that output has the format of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tauleap.data.columns.fields import Fields, as_config

DELIMITERS = (",", "\t", ";", "|", " ")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1")


@dataclass(frozen=True)
class Dialect:
    """Describe a delimited text file.

    Args:
        delimiter: The character between cells: a comma, tab, semicolon, bar or space. Default: a comma.
        header: Whether the first line has the names of the columns. Default: true.
        encoding: The encoding, by its Python name. Default: UTF-8.
        line_end: The end of a line. Default: a line feed.

    >>> Dialect.from_config(Dialect(";").config()).delimiter
    ';'
    """

    delimiter: str = ","
    header: bool = True
    encoding: str = "utf-8"
    line_end: str = "\n"

    def __post_init__(self) -> None:
        if self.delimiter not in DELIMITERS or self.delimiter == "":
            raise ValueError(f"delimiter must be one of {DELIMITERS}, got {self.delimiter!r}")
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, got {self.encoding!r}")
        if self.line_end not in ("\n", "\r\n", "\r"):
            raise ValueError(f"line_end must be '\\n', '\\r\\n' or '\\r', got {self.line_end!r}")

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
        fields = Fields(config, ("delimiter", "header", "encoding", "line_end"), "a dialect")
        return cls(
            fields.text("delimiter", 1), fields.flag("header"), fields.text("encoding", 20), fields.text("line_end", 2)
        )
