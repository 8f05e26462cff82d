"""Read the training rows of a file or list: choose the tokeniser, the length and the class labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tauleap import _check
from tauleap._files.printable import one_line
from tauleap.data.dataset import Dataset
from tauleap.data.format import LoadedData
from tauleap.data.sequences.detect import choose_tokens, file_of, is_table
from tauleap.data.sequences.encode import as_records, choose_length, place_in_list, symbols_of
from tauleap.data.sequences.files import Column, JsonLines, Lines, Record, SequenceFile
from tauleap.data.sequences.format import SequenceFormat, without_long_rows
from tauleap.data.sequences.labels import BINS, LabelColumn, Labels
from tauleap.data.sequences.tokens import TOKENISERS, Items, Text, Tokeniser, UnknownSymbolError

_SHOWN = 200
"""Characters of the names of labels in a report."""


def open_rows(
    path: Path,
    text: str | None,
    label: Sequence[str],
    bins: int | None,
    table: Mapping[str, Any],
    *,
    tokens: str,
    vocabulary: int | None,
    length: int | None,
) -> LoadedData:
    """Read the rows of a file, as :meth:`tauleap.data.sequences.format.SequenceFormat.open` does.

    Args:
        path: The file.
        text: The column of a table, or the entry of JSON objects, with the row.
        label: Columns of a table with class labels.
        bins: Quantile bins of a column of labels with numbers; None for the default.
        table: Options for reading a table; None for those that are detected.
        tokens: The name of the tokeniser, or "auto".
        vocabulary: The largest number of symbols, where it can be chosen.
        length: The largest number of symbols of a row.

    Raises:
        ValueError: A row cannot be read, or an option is not for this file.
    """
    if bins is not None and not label:
        raise ValueError(
            "--bins needs --label: write --label COLUMN for numbers that become classes, or leave --bins out"
        )
    if is_table(path):
        file, records = Column.of(path, text or "", label, **table)
    elif label or any(value is not None for value in table.values()):
        raise ValueError(f"--label and other options of tables need a table, got {path}: leave them out")
    else:
        file = file_of(path, text)
        records = file.read(path)
    options: dict[str, Any] = {"tokens": tokens, "vocabulary": vocabulary, "length": length, "column": text or ""}
    form, symbols, why = fitted(file, records, path, **options)
    if label:
        form = replace(form, labels=_fit_labels(label, records, BINS if bins is None else bins, path))
    dataset, report = _loaded(form, records, symbols, path.name, why=why)
    if form.labels is not None:
        names = one_line("; ".join(form.labels.names), most=_SHOWN)
        report.append(f"{form.labels.number} class labels: {names}; sample them with --label")
    return LoadedData(dataset, form, report)


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
    records = as_records(texts)
    file = Lines() if all(isinstance(text, str) and "\n" not in text for text in texts) else JsonLines()
    form, symbols, why = fitted(file, records, None)
    dataset, report = _loaded(form, records, symbols, "the list", why=why, in_memory=True)
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
            raise ValueError(f"--vocabulary needs --tokens words or bpe, got {name}: leave --vocabulary out")
    texts = [record.text for record in records]
    tokeniser = _fit(known[name], records, texts, vocabulary, place, path)
    symbols = symbols_of(records, tokeniser, place)
    lengths = np.fromiter(map(len, symbols), np.int64, len(symbols))
    return SequenceFormat(choose_length(lengths, length), tokeniser, file), symbols, why


def _fit_labels(names: Sequence[str], records: Sequence[Record], bins: int, path: Path) -> Labels:
    _check.integer("bins", bins, least=2)
    cells = list(zip(*(record.label for record in records), strict=True))
    try:
        return Labels(tuple(LabelColumn.fit(name, column, bins) for name, column in zip(names, cells, strict=True)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _fit(
    cls: type[Tokeniser], records: Sequence[Record], texts: list[Text], vocabulary: int | None, place: Any, path: Any
) -> Tokeniser:
    try:
        return cls.fit(texts, vocabulary)
    except UnknownSymbolError as error:
        record = next(record for record in records if _lacks(cls, record.text))
        raise ValueError(
            f"{place(record, error.at)}: {error.symbol!r} is not one of the {cls.noun}; accepted are {error.accepted}: "
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


def _lengths(rows: Tensor) -> str:
    least, most = int(rows.min()), int(rows.max())
    if least == most:
        return f"{most:,} symbol{'s' * (most != 1)}"
    return f"{least:,} to {most:,} symbols, {float(rows.double().mean()):.1f} on average,"


def _loaded(
    form: SequenceFormat,
    records: Sequence[Record],
    symbols: Sequence[Sequence[int]],
    name: str,
    *,
    why: str,
    in_memory: bool = False,
) -> tuple[Dataset, list[str]]:
    """Return the rows that are not too long, and a report."""
    data, left_out = without_long_rows(form, records, symbols, f"{name}: ", None, in_memory=in_memory)
    rows = (data.in_memory() != form.end).sum(1)
    reason = f", {why}" if why else ""
    tokens, option = form.tokens.describe(), "" if in_memory else " (--tokens)"
    described = f"{name}: {len(data):,} rows of {_lengths(rows)} and their end; {tokens}{reason}{option}"
    return data, [described, *left_out]
