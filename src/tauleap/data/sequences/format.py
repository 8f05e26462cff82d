"""The format of rows of symbols with lengths of their own: one row per line, record, or cell of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from tauleap import _check
from tauleap._files.printable import one_line
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.sequences.detect import choose_tokens, file_of
from tauleap.data.sequences.encode import as_rows, choose_length, symbols_of
from tauleap.data.sequences.files import Record, SequenceFile, file_from_config
from tauleap.data.sequences.tokens import TOKENISERS, UNKNOWN, Items, Text, Tokeniser, tokeniser_from_config

TokensName = Literal["auto", "characters", "bytes", "smiles", "amino", "bases", "words", "bpe"]
_SHOWN = 200
"""Characters of a row in a preview."""


@dataclass(frozen=True)
class SequenceFormat(Format):
    """Read and write rows of symbols that end with an end state.

    A row of n symbols has the end state at site n and at all sites behind it, up to the last one, where every row has
    it. So each row is one sequence of states, and each sequence that can be drawn is one row.

    Args:
        length: The largest number of symbols of a row, >= 1; the rows have one more site.
        tokens: The tokeniser.
        file: The kind of file.
    """

    kind: ClassVar[str] = "sequences"
    preview_rows: ClassVar[int] = 10
    completion_remedy: ClassVar[str] = "shorten the rows, or mark gaps by a wildcard"
    length: int
    tokens: Tokeniser
    file: SequenceFile

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
        lines: bool | None = None,
        tokens: TokensName = "auto",
        vocabulary: int | None = None,
        length: int | None = None,
        text: str | None = None,
    ) -> LoadedData:
        """Read the rows of a file.

        Args:
            path: A file with one row per line, record or JSON value.
            lines: Whether each line is a row; no other value than true is accepted. Default: true.
            tokens: The symbols: "characters", "bytes", "smiles", "amino", "bases", "words" or "bpe". Default: "auto",
                by the kind of file.
            vocabulary: The largest number of symbols of "bpe" and "words". Default: 4096 for "bpe", all words.
            length: The largest number of symbols of a row; longer rows are left out. Default: that of the longest row,
                or the 99.5th percentile if few rows are much longer.
            text: The entry of JSON objects with the row. Default: none.

        Raises:
            ValueError: A row cannot be read. The message has its line.
        """
        if lines is False:
            raise ValueError(f"{path} has one row per line or record: leave --no-lines out")
        file = file_of(path, text)
        records = file.read(path)
        form, symbols, why = fitted(
            file, records, path, tokens=tokens, vocabulary=vocabulary, length=length, column=text or ""
        )
        dataset, report = _loaded(form, records, symbols, path.name, given=length, why=why)
        return LoadedData(dataset, form, report)

    def read(self, path: Path) -> Dataset:
        return self.read_with_report(path)[0]

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        records = self.file.read(path)
        symbols = symbols_of(records, self.tokens, lambda record, at: self.file.place(path, record, at))
        return _without_long_rows(self, records, symbols, f"{path.name}: ", path)

    def read_incomplete(self, path: Path, *, wildcard: str | None = None) -> tuple[Dataset, list[str]]:
        records = self.file.read(path, incomplete=True)
        return self.to_complete(records, lambda record, at: self.file.place(path, record, at), wildcard), []

    def to_complete(self, records: Sequence[Record], place: Any, wildcard: str | None = None) -> Dataset:
        """Return rows to complete: a row with wildcards is whole but for these, and any other row is continued.

        Args:
            records: The rows.
            place: Returns where a symbol of a row is, for messages.
            wildcard: The text of one open symbol. Default: that of the tokeniser.

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
        return as_rows(records, symbols, self.tokens, self.length, is_open=is_open)

    @property
    def wildcard(self) -> str:
        """The text that stands for one open symbol in a row to complete."""
        return self.tokens.wildcard

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", f"continues each row of the file to its end, and fills gaps marked {self.wildcard}"

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
        return {"kind": self.kind, "length": self.length, "tokens": self.tokens.config(), "file": self.file.config()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SequenceFormat:
        if set(config) - {"kind"} != {"length", "tokens", "file"}:
            raise ValueError("a format of kind 'sequences' must have the fields length, tokens, file")
        try:
            return cls(config["length"], tokeniser_from_config(config["tokens"]), file_from_config(config["file"]))
        except TypeError as error:
            raise ValueError(f"a field of the format of kind 'sequences' has the wrong type: {error}") from error


def as_records(texts: Sequence[str | Sequence[str | int]]) -> list[Record]:
    """Return rows in memory like those of a file.

    Args:
        texts: The rows.
    """
    return [Record(text if isinstance(text, str) else tuple(text), number, 1) for number, text in enumerate(texts)]


def place_in_list(record: Record, at: int) -> str:
    """Return where a symbol of a row in memory is, for messages.

    Args:
        record: The row.
        at: The position of the symbol.
    """
    return f"row {record.line}, position {at}"


def open_texts(texts: Sequence[str | Sequence[str | int]]) -> LoadedData:
    """Return rows of different lengths in memory as states, with a format that writes one row per line.

    >>> loaded = open_texts(["ab", "a"])
    >>> loaded.dataset.x.tolist(), loaded.form.texts(loaded.dataset.x)
    ([[0, 1, 2], [0, 2, 2]], ['ab', 'a'])

    Args:
        texts: Texts, or lists of texts or of whole numbers.

    Raises:
        ValueError: The rows have fewer than two different symbols.
    """
    from tauleap.data.sequences.files import JsonLines, Lines

    records = as_records(texts)
    file = Lines() if all(isinstance(text, str) and "\n" not in text for text in texts) else JsonLines()
    form, symbols, why = fitted(file, records, None)
    dataset, report = _loaded(form, records, symbols, "the list", given=None, why=why)
    return LoadedData(dataset, form, report)


def fitted(
    file: SequenceFile,
    records: Sequence[Record],
    path: Path | None,
    *,
    tokens: str = "auto",
    vocabulary: int | None = None,
    length: int | None = None,
    column: str = "",
) -> tuple[SequenceFormat, list[list[int]], str]:
    """Return the format that suits rows, the symbols of the rows, and why this tokeniser was chosen.

    Args:
        file: The kind of file.
        records: The rows.
        path: The file; None for rows in memory.
        tokens: The name of the tokeniser. Default: "auto".
        vocabulary: The largest number of symbols, for tokenisers where it can be chosen. Default: all.
        length: The largest number of symbols of a row. Default: by the rows.
        column: The name of the column with the rows. Default: none.

    Raises:
        ValueError: An argument or a symbol is not valid.
    """

    def place(record: Record, at: int) -> str:
        return place_in_list(record, at) if path is None else file.place(path, record, at)

    name, why = choose_tokens(file, records, path or Path("the list"), column) if tokens == "auto" else (tokens, "")
    known = TOKENISERS | {Items.kind: Items}
    if name not in known or (tokens == Items.kind):
        raise ValueError(f"tokens must be auto, {', '.join(TOKENISERS)}, got {tokens!r}")
    if vocabulary is not None:
        _check.integer("vocabulary", vocabulary, least=2)
        if name not in ("words", "bpe"):
            raise ValueError(f"a vocabulary is chosen for --tokens words and bpe, not for {name}: leave it out")
    texts = [record.text for record in records]
    tokeniser = _fit(known[name], records, texts, vocabulary, place, path)
    symbols = symbols_of(records, tokeniser, place)
    lengths = np.fromiter(map(len, symbols), np.int64, len(symbols))
    return SequenceFormat(choose_length(lengths, length), tokeniser, file), symbols, why


def _fit(
    cls: type[Tokeniser], records: Sequence[Record], texts: list[Text], vocabulary: int | None, place: Any, path: Any
) -> Tokeniser:
    from tauleap.data.sequences.tokens import UnknownSymbolError

    try:
        return cls.fit(texts, vocabulary)
    except UnknownSymbolError as error:
        record = next(record for record in records if _lacks(cls, record.text))
        raise ValueError(
            f"{place(record, error.at)}: {error.symbol!r} is none of the {cls.noun}; accepted are {error.accepted}: "
            "correct it, or write --tokens characters"
        ) from error
    except ValueError as error:
        raise ValueError(f"{'the list' if path is None else path}: {error}") from error


def _lacks(cls: type[Tokeniser], text: Text) -> bool:
    try:
        cls.fit([text])
    except ValueError:
        return True
    return False


def _loaded(
    form: SequenceFormat,
    records: Sequence[Record],
    symbols: Sequence[Sequence[int]],
    name: str,
    *,
    given: int | None,
    why: str,
) -> tuple[Dataset, list[str]]:
    """Return the rows that are not too long, and a report."""
    data, left_out = _without_long_rows(form, records, symbols, f"{name}: ", None)
    rows = (data.in_memory() != form.end).sum(1)
    reason = f", {why}" if why else ""
    tokens = form.tokens.describe()
    described = (
        f"{name}: {len(data):,} rows of {int(rows.min())} to {int(rows.max())} symbols and their end, "
        f"{float(rows.double().mean()):.1f} on average; {tokens}{reason} (--tokens)"
    )
    return data, [described, *left_out]


def _without_long_rows(
    form: SequenceFormat,
    records: Sequence[Record],
    symbols: Sequence[Sequence[int]],
    name: str,
    path: Path | None,
) -> tuple[Dataset, list[str]]:
    short = [number for number, row in enumerate(symbols) if len(row) <= form.length]
    report: list[str] = []
    if len(short) < len(symbols):
        longer = [
            (len(row), record.line) for row, record in zip(symbols, records, strict=True) if len(row) > form.length
        ]
        first = f"line {longer[0][1]:,} has {longer[0][0]:,}"
        if len(short) < (2 if path is None else 1):  # training also needs a row to measure on
            where = name if path is None else f"{path}: "
            raise ValueError(
                f"{where}{len(longer):,} of {len(symbols):,} rows have more than {form.length:,} symbols ({first}), "
                f"and too few rows are left: write shorter rows, --length {longer[0][0]}, or --no-lines to read a .txt "
                "as one text"
            )
        report.append(
            f"{name}{len(longer):,} of {len(symbols):,} rows have more than {form.length:,} symbols and are left out "
            f"({first}); --length changes this"
        )
    kept = [records[number] for number in short]
    return as_rows(kept, [symbols[number] for number in short], form.tokens, form.length), report
