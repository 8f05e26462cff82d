"""A column of texts in a table, with columns of class labels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tauleap._files.printable import one_line
from tauleap.data.sequences.files.records import Record, SequenceFile, check_suffix
from tauleap.data.sequences.tokens import Text
from tauleap.data.table.columns import RawTable
from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.csv import write_texts
from tauleap.data.table.reader import read_table

SUFFIXES = (".csv", ".tsv")


@dataclass(frozen=True)
class Column(SequenceFile):
    """Read one row per cell of a column. Samples have this column alone, and completed files all columns.

    Args:
        suffix: The ending of the files that are written, ".csv" or ".tsv".
        text: The name of the column.
        labels: The names of the columns of labels; empty for none.
        columns: The names of all columns of the training file.
    """

    kind: ClassVar[str] = "column"
    suffix: str
    text: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        check_suffix(self.suffix, SUFFIXES)
        names = (self.text, *self.labels, *self.columns)
        if not all(isinstance(name, str) for name in names) or self.text not in self.columns:
            raise ValueError(f"the column with the rows must be a column of the table, got {self.text!r:.60}")

    @staticmethod
    def of(path: Path, text: str, labels: Sequence[str], **options: object) -> tuple[Column, list[Record]]:
        """Return the kind of file of a table, and its rows.

        Args:
            path: The table.
            text: The name of the column of texts.
            labels: The names of the columns of labels.
            options: Arguments of :func:`tauleap.data.table.reader.read_table`.
        """
        raw = read_table(path, **options)
        suffix = path.suffix.lower() if path.suffix.lower() in SUFFIXES else ".csv"
        for name in (text, *labels):
            if name not in raw.columns:
                shown = one_line(", ".join(raw.columns), most=500)
                raise ValueError(f"{path} has no column {name!r}: write one of {shown}")
        if text in labels:
            raise ValueError(f"the column {text!r} cannot be both --text and --label: write another column")
        file = Column(suffix, text, tuple(labels), tuple(raw.columns))
        return file, file._records(path, raw)

    def read(self, path: Path, *, incomplete: bool = False) -> list[Record]:
        raw = read_table(path)
        if self.text not in raw.columns:
            shown = one_line(", ".join(raw.columns), most=500)
            raise ValueError(f"{path} has no column {self.text!r}, which the model was trained on; it has {shown}")
        return self._records(path, raw, incomplete=incomplete)

    def _records(self, path: Path, raw: RawTable, *, incomplete: bool = False) -> list[Record]:
        texts = raw.columns[self.text].texts().tolist()
        missing = (raw.columns[self.text].codes < 0).tolist()
        empty = [""] * raw.num_rows

        def cells(names: Sequence[str]) -> list[tuple[str, ...]]:
            found = []
            for name in names:
                column = raw.columns.get(name)
                values = empty if column is None else column.texts().tolist()
                codes = [] if column is None else column.codes.tolist()
                found.append(["" if code < 0 else value for value, code in zip(values, codes, strict=False)] or empty)
            return list(zip(*found, strict=True)) if found else [()] * raw.num_rows

        labels, extras = cells(self.labels), cells(self.columns) if incomplete else [()] * raw.num_rows
        records = []
        for row, (text, extra, label) in enumerate(zip(texts, extras, labels, strict=True)):
            line = raw.line(row) or row + 1
            if missing[row] and not incomplete:
                raise ValueError(
                    f"{path}, line {line:,}: the column {self.text!r} is empty: remove the row, or write its text"
                )
            records.append(Record("" if missing[row] else text, line, 0, extra, label))
        return records

    def place(self, path: Path, record: Record, at: int) -> str:
        return f"{path}, line {record.line:,}, column {self.text!r}, character {at + 1:,}"

    def content(self, texts: Sequence[Text], extras: Sequence[tuple[str, ...]] | None, first: int) -> str:
        dialect = Dialect("\t" if self.suffix == ".tsv" else ",")
        columns: dict[str, list[str]] = {self.text: [str(text) for text in texts]}
        if extras is not None:
            place = self.columns.index(self.text)
            rows = [(*extra[:place], str(text), *extra[place + 1 :]) for extra, text in zip(extras, texts, strict=True)]
            columns = {name: [row[at] for row in rows] for at, name in enumerate(self.columns)}
        file = io.StringIO(newline="")
        write_texts(columns, dialect, file, header=True)
        return file.getvalue()
