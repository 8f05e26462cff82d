"""Rows of symbols as they are in a file, and the base of the kinds of files."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tauleap import _files
from tauleap._files.printable import one_line
from tauleap.data import limits
from tauleap.data.sequences.fields import from_fields, to_fields
from tauleap.data.sequences.tokens import Text


class Record(NamedTuple):
    """Hold one row of a file."""

    text: Text
    """The sequence."""
    line: int
    """Its line in the file, from 1."""
    column: int
    """The column of its first character, from 1; 0 where the place of a symbol is not known."""
    extra: tuple[str, ...] = ()
    """The other content of the record, such as its name."""
    label: tuple[str, ...] = ()
    """The cells of the columns of labels."""


class SequenceFile(ABC):
    """Read and write one kind of file with rows of symbols; a frozen dataclass whose fields can be saved as JSON."""

    kind: ClassVar[str]
    """The name in a configuration."""
    suffix: str
    """The ending of the files that are written."""

    @abstractmethod
    def read(self, path: Path, *, incomplete: bool = False) -> list[Record]:
        """Return the rows of a file.

        Args:
            path: The file.
            incomplete: Whether rows without symbols are accepted, to be sampled as a whole. Default: false.

        Raises:
            ValueError: The file has no rows, or one that cannot be read.
        """

    @abstractmethod
    def content(self, texts: Sequence[Text], extras: Sequence[tuple[str, ...]] | None, first: int) -> str:
        """Return the content of a file with some rows.

        Args:
            texts: The rows.
            extras: What the file has beside each sequence; None for samples.
            first: The number of the first row, for names.
        """

    def write(
        self, texts: Sequence[Text], path: Path, *, extras: Sequence[tuple[str, ...]] | None = None, first: int = 0
    ) -> None:
        """Write rows into a file.

        Args:
            texts: The rows.
            path: The file.
            extras: What the file has beside each sequence. Default: none.
            first: The number of the first row, for names. Default: 0.
        """
        content = self.content(texts, extras, first)
        with _files.atomic_write(path) as file:
            file.write(content.encode("utf-8", "surrogatepass"))

    def place(self, path: Path, record: Record, at: int) -> str:
        """Return where a symbol is in a file, for messages.

        Args:
            path: The file.
            record: The row.
            at: The position of the symbol in its text, from 0.
        """
        if not isinstance(record.text, str):
            return f"{path}, line {record.line:,}, item {at + 1:,}"
        column = f", column {record.column + at:,}" if record.column else f", character {at + 1:,} of the row"
        return f"{path}, line {record.line:,}{column}"

    def config(self) -> dict[str, Any]:
        """Return the configuration, which can be saved as JSON."""
        return to_fields(self.kind, self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SequenceFile:
        """Return the kind of file of a configuration.

        Args:
            config: What :meth:`config` returned.

        Raises:
            ValueError: The configuration is not valid.
        """
        return from_fields(f"a file of kind {cls.kind!r}", cls, config)


def numbered_lines(path: Path, *, keep_empty: bool = False) -> list[str]:
    """Return the lines of a text file, without the line breaks and without empty lines at its end.

    Args:
        path: The file, in UTF-8.
        keep_empty: Whether empty lines at the end are returned too. Default: false.

    Raises:
        ValueError: The file is empty, too large or not UTF-8.
    """
    content = limits.contents(path)
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise ValueError(
            f"{path}, line {line:,}, byte {column:,}: {content[error.start]:#04x} is not UTF-8: save the file as UTF-8"
        ) from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    while lines and not lines[-1].strip() and not keep_empty:
        lines.pop()
    if not lines:
        raise ValueError(f"{path} has no lines with symbols: write one row per line")
    return lines


def check_empty(path: Path, lines: Sequence[str], remedy: str) -> None:
    """Raise ValueError if a line is empty.

    Args:
        path: The file, for the message.
        lines: Its lines.
        remedy: What the user can do.
    """
    empty = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if empty:
        more = f", one of {len(empty):,} such lines" if len(empty) > 1 else ""
        raise ValueError(f"{path}, line {empty[0]:,} is empty{more}: {remedy}")


def check_suffix(suffix: object, accepted: Sequence[str]) -> None:
    """Raise ValueError unless an ending is one of those of a kind of file.

    Args:
        suffix: The ending.
        accepted: The endings of this kind of file.
    """
    if suffix not in accepted:
        raise ValueError(f"the ending of a file of sequences must be one of {', '.join(accepted)}, got {suffix!r:.60}")


def shown_line(line: str) -> str:
    """Return the beginning of a line for a message.

    Args:
        line: The line.
    """
    return repr(one_line(line, most=40))
