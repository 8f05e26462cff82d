"""The format of rows of symbols with lengths of their own: one row per line, record, or cell of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from tauleap._files.printable import one_line
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.sequences.encode import as_records, as_rows, place_in_list, symbols_of
from tauleap.data.sequences.files import Record, SequenceFile, file_from_config
from tauleap.data.sequences.labels import Labels
from tauleap.data.sequences.tokens import UNKNOWN, Text, Tokeniser, tokeniser_from_config

TokensName = Literal["auto", "characters", "bytes", "smiles", "amino", "bases", "words", "bpe"]
_SHOWN = 200
"""Characters of a row in a preview."""
_MOST_LENGTH = 16_384
"""Symbols up to which a message proposes a length: attention of more sites needs gigabytes for a row."""


@dataclass(frozen=True)
class SequenceFormat(Format):
    """Read and write rows of symbols that end with an end state.

    A row of n symbols has the end state at site n and at all sites behind it, up to the last one, where every row has
    it. So each row is one sequence of states, and each sequence that can be drawn is one row.

    Args:
        length: The largest number of symbols of a row, >= 1; the rows have one more site.
        tokens: The tokeniser.
        file: The kind of file.
        labels: The class labels of the rows. Default: none.
    """

    kind: ClassVar[str] = "sequences"
    preview_rows: ClassVar[int] = 10
    completion_remedy: ClassVar[str] = "shorten the rows, or mark gaps by a wildcard"
    length: int
    tokens: Tokeniser
    file: SequenceFile
    labels: Labels | None = None

    def __post_init__(self) -> None:
        if isinstance(self.length, bool) or not isinstance(self.length, int) or self.length < 1:
            raise ValueError(f"the length of rows of symbols must be a whole number >= 1, got {self.length!r}")
        if not isinstance(self.tokens, Tokeniser) or not isinstance(self.file, SequenceFile):
            raise ValueError("a format of rows of symbols must have a tokeniser and a kind of file")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length + 1,)

    @property
    def num_states(self) -> int:
        return self.tokens.num_symbols + 1

    @property
    def end(self) -> int:
        """The end state, which is the last one."""
        return self.tokens.num_symbols

    @staticmethod
    def open(
        path: Path,
        *,
        tokens: TokensName = "auto",
        vocabulary: int | None = None,
        length: int | None = None,
        text: str | None = None,
        label: Sequence[str] = (),
        bins: int | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> LoadedData:
        """Read the rows of a file.

        Args:
            path: A file with one row per line, record or JSON value.
            tokens: The symbols: "characters", "bytes", "smiles", "amino", "bases", "words" or "bpe". Default: "auto",
                by the kind of file.
            vocabulary: The largest number of symbols of "bpe" and "words". Default: 4096 for "bpe", all words.
            length: The largest number of symbols of a row; longer rows are left out. Default: that of the longest row,
                or the 99.5th percentile if few rows are much longer.
            text: The column of a table, or the entry of JSON objects, with the row. Default: none.
            label: Columns of a table with class labels; their combinations are the classes. Default: none.
            bins: Quantile bins of a column of labels with numbers, >= 2. Default: 5.
            header: Whether the first line of a table has the names of the columns. Default: detected.
            delimiter: The column separator of a table. Default: detected.
            encoding: The encoding of a table. Default: detected.

        Raises:
            ValueError: A row cannot be read. The message has its line.
        """
        from tauleap.data.sequences.opening import open_rows

        table = {"header": header, "delimiter": delimiter, "encoding": encoding}
        return open_rows(path, text, tuple(label), bins, table, tokens=tokens, vocabulary=vocabulary, length=length)

    def read(self, path: Path) -> Dataset:
        return self.read_with_report(path)[0]

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        records = self.file.read(path)
        symbols = symbols_of(records, self.tokens, lambda record, at: self.file.place(path, record, at))
        return without_long_rows(self, records, symbols, f"{path.name}: ", path)

    def read_incomplete(self, path: Path, *, wildcard: str | None = None) -> tuple[Dataset, list[str]]:
        records = self.file.read(path, incomplete=True)
        return self.to_complete(records, lambda record, at: self.file.place(path, record, at), wildcard), []

    def to_complete(self, records: Sequence[Record], place: Any, wildcard: str | None = None) -> Dataset:
        """Return rows to complete: a row with wildcards is whole but for these, and any other row is continued.

        Args:
            records: The rows.
            place: Returns where a symbol of a row is, for messages.
            wildcard: The text that stands for one missing symbol. Default: that of the tokeniser.

        Raises:
            ValueError: A row has an unknown symbol, or is too long.
        """
        mark = self.wildcard if wildcard is None else wildcard
        if mark == "":
            raise ValueError("the wildcard must be one or more characters, got an empty text")
        symbols = symbols_of(records, self.tokens, place, wildcard=mark)
        for record, row in zip(records, symbols, strict=True):
            if len(row) > self.length:
                raise ValueError(
                    f"{place(record, 0)}: the row has {len(row):,} symbols, and the model's rows have at most "
                    f"{self.length:,}: shorten it, or train with --length {len(row)}"
                )
        is_open = np.array([UNKNOWN not in row for row in symbols])
        return as_rows(records, symbols, self.tokens, self.length, is_open=is_open, labels=self.labels)

    @cached_property
    def state_names(self) -> list[str]:
        """The text of each state, the end as "(end)"."""
        symbols = (self.tokens.decode([number]) for number in range(self.tokens.num_symbols))
        return [*(text if isinstance(text, str) else str(text[0]) for text in symbols), "(end)"]

    @property
    def wildcard(self) -> str:
        """The text that stands for one missing symbol in a row to complete."""
        return self.tokens.wildcard

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        mark = self.wildcard
        where = f"marked {mark}" if mark.isascii() else "whose mark --wildcard names"
        return "FILE", f"continues each row of the file to its end, and fills gaps {where}"

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}{self.file.suffix}"
        self.file.write(self.texts(x), path, first=first)
        return [path]

    def write_completed(
        self, x: Tensor, observed: Tensor, data: Dataset, folder: Path, *, stem: str = "completed", seed: int = 0
    ) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}{self.file.suffix}"
        extras = None if data.sequences is None else data.sequences.extras
        self.file.write(self.texts(x), path, extras=extras)
        return [path]

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        shown = (text if isinstance(text, str) else str(list(text)) for text in self.texts(x[:n]))
        return "\n".join(one_line(text, most=_SHOWN) for text in shown)

    def texts(self, x: Tensor) -> list[Text]:
        """Return each row up to its first end state: a text, or a tuple of tokens.

        Args:
            x: States, (n, length + 1).
        """
        rows = self.check(x).tolist()
        return [self.tokens.decode(row[: row.index(self.end)] if self.end in row else row) for row in rows]

    def encode_texts(self, texts: Sequence[str | Sequence[str | int]], *, incomplete: bool = False) -> Dataset:
        """Return rows in memory as states.

        Args:
            texts: The rows.
            incomplete: Whether the rows are to be completed, as :meth:`to_complete` does. Default: false.

        Raises:
            ValueError: A row has an unknown symbol, or is too long.
        """
        records = as_records(texts)
        if incomplete:
            return self.to_complete(records, place_in_list)
        symbols = symbols_of(records, self.tokens, place_in_list)
        for number, row in enumerate(symbols):
            if len(row) > self.length:
                raise ValueError(
                    f"row {number} has {len(row):,} symbols, and the model's rows have at most {self.length:,}: leave "
                    "it out or shorten it"
                )
        return as_rows(records, symbols, self.tokens, self.length)

    def config(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "length": self.length,
            "tokens": self.tokens.config(),
            "file": self.file.config(),
            "labels": None if self.labels is None else self.labels.config(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SequenceFormat:
        if set(config) - {"kind"} != {"length", "tokens", "file", "labels"}:
            raise ValueError("a format of kind 'sequences' must have the fields length, tokens, file, labels")
        tokens, file, labels = config["tokens"], config["file"], config["labels"]
        try:
            return cls(
                config["length"],
                tokeniser_from_config(tokens),
                file_from_config(file),
                None if labels is None else Labels.from_config(labels),
            )
        except TypeError as error:
            raise ValueError(f"a field of the format of kind 'sequences' has the wrong type: {error}") from error


def _remedy_of_long_rows(form: SequenceFormat, shortest: int, *, option: bool) -> str:
    remedies = ["write shorter rows"]
    if option and shortest <= _MOST_LENGTH:
        remedies.append(f"--length {shortest}")
    if option and form.file.kind == "lines":
        remedies.append("--no-lines to read the file as one text")
    return ", or ".join(remedies)


def without_long_rows(
    form: SequenceFormat,
    records: Sequence[Record],
    symbols: Sequence[Sequence[int]],
    name: str,
    path: Path | None,
    *,
    in_memory: bool = False,
) -> tuple[Dataset, list[str]]:
    """Return the rows that are not too long, and a report of the others.

    Args:
        form: The format.
        records: The rows.
        symbols: The symbols of each row.
        name: The beginning of a line of the report.
        path: The file of rows to measure; None for training rows, of which two must be left.
        in_memory: Whether the rows are a list in Python. Default: false.

    Raises:
        ValueError: Too few rows are left.
    """
    short = [number for number, row in enumerate(symbols) if len(row) <= form.length]
    report: list[str] = []
    if len(short) < len(symbols):
        longer = [
            (len(row), record.line) for row, record in zip(symbols, records, strict=True) if len(row) > form.length
        ]
        first = f"{'row' if in_memory else 'line'} {longer[0][1]:,} has {longer[0][0]:,}"
        has_option = path is None and not in_memory
        if len(short) < (2 if path is None else 1):  # training also needs a row to measure on
            where = name if path is None else f"{path}: "
            raise ValueError(
                f"{where}{len(longer):,} of {len(symbols):,} rows have more than {form.length:,} symbols ({first}), "
                f"and too few rows are left: {_remedy_of_long_rows(form, min(longer)[0], option=has_option)}"
            )
        report.append(
            f"{name}{len(longer):,} of {len(symbols):,} rows have more than {form.length:,} symbols and are left out "
            f"({first}){'; --length changes this' if has_option else ''}"
        )
    kept = [records[number] for number in short]
    rows = [symbols[number] for number in short]
    return as_rows(kept, rows, form.tokens, form.length, labels=form.labels), report
