"""Rows of symbols as states: every row ends with the end state, which also fills the sites behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from tauleap import _check
from tauleap.data import limits
from tauleap.data.dataset import Dataset
from tauleap.data.sequences.files import Record
from tauleap.data.sequences.labels import Labels
from tauleap.data.sequences.rows import SequenceRows
from tauleap.data.sequences.tokens import UNKNOWN, Tokeniser, UnknownSymbolError

MOST = 1024
"""Symbols per row at most, unless the user gives a length: attention compares all pairs of sites."""
_FAR, _QUANTILE = 1.5, 0.995
"""The longest row decides the length if it is at most this many times as long as this quantile of all rows."""


def symbols_of(
    records: Sequence[Record],
    tokeniser: Tokeniser,
    place: Callable[[Record, int], str],
    *,
    wildcard: str | None = None,
) -> list[list[int]]:
    """Return the symbols of each row.

    Args:
        records: The rows.
        tokeniser: Their tokeniser.
        place: Returns where a symbol of a row is, for messages.
        wildcard: The text that stands for one missing symbol. Default: none.

    Raises:
        ValueError: A row has a symbol that the tokeniser does not have.
    """
    rows = []
    for record in records:
        try:
            rows.append(
                tokeniser.encode(record.text) if wildcard is None else tokeniser.encode_open(record.text, wildcard)
            )
        except UnknownSymbolError as error:
            where = place(record, error.at)
            raise ValueError(
                f"{where}: {error.symbol!r} is not in the training data; accepted are {error.accepted}"
            ) from error
        except ValueError as error:  # a list of tokens where symbols are parts of a text, or the other way round
            raise ValueError(f"{place(record, 0)}: {error}") from error
    return rows


def choose_length(lengths: np.ndarray, given: int | None) -> int:
    """Return the largest number of symbols of a row.

    It is the length of the longest row, unless few rows are much longer than the others; then it is the 99.5th
    percentile. It is at most 1,024, and longer rows have no part in the choice unless all rows are longer.

    >>> choose_length(np.array([3] * 999 + [40]), None), choose_length(np.array([3, 4, 5, 10**6]), None)
    (3, 5)

    Args:
        lengths: The number of symbols of each row.
        given: The length that the user gave, which is returned; None for none.
    """
    if given is not None:
        return _check.integer("length", given, least=1)
    usable = lengths[lengths <= MOST]
    if not len(usable):
        return MOST
    usual = int(np.quantile(usable, _QUANTILE, method="higher"))
    longest = int(usable.max())
    return max(1, longest if longest <= _FAR * usual else usual)


def to_states(
    rows: Sequence[Sequence[int]], length: int, end: int, is_open: np.ndarray
) -> tuple[Tensor, Tensor | None]:
    """Return rows as states (n, length + 1), and a mask of the missing values or None.

    >>> to_states([[0, 1], [1]], 3, 2, np.array([False, True]))
    (tensor([[0, 1, 2, 2],
            [1, 2, 2, 2]], dtype=torch.uint8), tensor([[False, False, False, False],
            [False,  True,  True, False]]))

    Args:
        rows: The symbols of each row, at most ``length``; ``UNKNOWN`` for an open one.
        length: The largest number of symbols.
        end: The end state.
        is_open: Whether the symbols behind the last one are missing, (n,). The last site always has the end state.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    if len(rows) * (length + 1) > limits.VALUES:
        raise ValueError(
            f"{len(rows):,} rows of {length + 1:,} sites are more than {limits.VALUES:,} values: write a smaller "
            "--length, or a part of the rows into another file"
        )
    inside = np.arange(length + 1) < lengths[:, None]
    x = np.full((len(rows), length + 1), end, dtype=np.int32)
    x[inside] = np.fromiter((symbol for row in rows for symbol in row), np.int32, int(lengths.sum()))
    missing = (x == UNKNOWN) | (is_open[:, None] & ~inside)
    missing[:, -1] = False
    x[missing] = end
    states = torch.from_numpy(x.astype(np.uint8) if end < 256 else x)
    return states, torch.from_numpy(missing) if missing.any() else None


def as_rows(
    records: Sequence[Record],
    symbols: Sequence[Sequence[int]],
    tokeniser: Tokeniser,
    length: int,
    *,
    is_open: np.ndarray | None = None,
    labels: Labels | None = None,
) -> Dataset:
    """Return a dataset of rows that are not too long.

    Args:
        records: The rows.
        symbols: The symbols of each.
        tokeniser: Their tokeniser.
        length: The largest number of symbols.
        is_open: Whether a row may have more symbols behind its last one, (n,). Default: none.
        labels: The class labels. Default: none.
    """
    end = tokeniser.num_symbols
    x, missing = to_states(symbols, length, end, np.zeros(len(records), dtype=bool) if is_open is None else is_open)
    texts = [record.text for record in records]
    characters = None
    if all(isinstance(text, str) for text in texts):
        characters = torch.tensor([len(text) + 1 for text in texts], dtype=torch.int64)
    extras = [record.extra for record in records]
    number = None if labels is None else labels.number
    condition = None if labels is None else torch.tensor([labels.encode(record.label) for record in records])
    sequences = SequenceRows(end, characters, number, extras if any(extras) else None)
    return Dataset(x, end + 1, condition, missing, sequences=sequences)


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
