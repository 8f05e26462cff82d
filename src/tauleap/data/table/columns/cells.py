"""The cells of one column: its distinct values, and which of them each row has."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

T = TypeVar("T")
Kind = Literal["text", "number", "boolean", "date", "object"]

MISSING_MARKS = frozenset({"", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "None", "\\N"})
"""Texts of a missing value in every column; spaces around them do not count."""
_OUTER_SPACE = re.compile(r"(?:\A|\n)\s|\s(?:\n|\Z)")
_END_OF_WORD = re.compile(r"[^0-9\s]\s*(?:\n|\Z)")
SOLITARY_MARKS = frozenset(
    {"?", "-", "--", "*", ".", "n/a", "na", "n.a.", "none", "null", "missing", "unknown"}
    | {"#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "0000-00-00", "0000-00-00 00:00:00"}
)
"""Texts, in lower case, of a missing value in a column whose other values are numbers or dates; among them the errors
of spreadsheet programs and the zero date of databases."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Hold a column as distinct values and one code per row, so that each value is parsed and encoded once.

    Args:
        kind: The type of ``values``: texts, numbers (integers or floats), booleans, dates (datetime64), other objects.
        values: The distinct values.
        codes: int32, per row the position of its value; -1 where the value is missing.
        marker: The text that stood for missing values. Default: empty.
        is_utc: Whether dates come from a column with a time zone and were converted to UTC. Default: false.
        unit: The unit of numbers that are durations, such as ``"h"``. Default: none.
        memory: What :meth:`remember` keeps. Default: nothing.

    >>> cells = Cells.from_texts(["3", "NA", "3"])
    >>> cells.values.tolist(), cells.codes.tolist(), cells.counts.tolist()
    (['3'], [0, -1, 0], [2])
    """

    kind: Kind
    values: np.ndarray
    codes: np.ndarray
    marker: str = ""
    is_utc: bool = False
    unit: str = ""
    memory: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_texts(cls, texts: Sequence[str], missing: Collection[str] | None = None) -> Cells:
        """Return the cells of a list of texts.

        Args:
            texts: One text per row.
            missing: The texts of a missing value. Default: ``MISSING_MARKS``.
        """
        places: dict[str, int] = {}
        codes = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int32, len(texts))
        return cls("text", objects(list(places)), codes).without(MISSING_MARKS if missing is None else missing)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.codes)

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows per distinct value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values)).astype(np.int64)

    @cached_property
    def num_known(self) -> int:
        """The number of rows whose value is not missing."""
        return int((self.codes >= 0).sum())

    def without(self, marks: Collection[str]) -> Cells:
        """Return cells in which some texts are missing values.

        Args:
            marks: The texts; spaces around a cell do not count.
        """
        if self.kind != "text":
            return self
        texts = self.values.tolist()
        # Most columns have no such text: two passes of C code find out.
        if frozenset(marks).isdisjoint(texts) and not _OUTER_SPACE.search("\n".join(texts)):
            return self
        found = [place for place, text in enumerate(texts) if text.strip() in marks]
        if not found:
            return self
        frequent = max(found, key=lambda place: int(self.counts[place]))
        memory = self.remember(("without", frozenset(marks)), dict)
        return replace(self.drop(np.array(found)), marker=self.values[frequent].strip(), memory=memory)

    def drop(self, places: np.ndarray) -> Cells:
        """Return cells in which some distinct values are missing.

        Args:
            places: The positions of these values.
        """
        keep = np.ones(len(self.values), dtype=bool)
        keep[places] = False
        table = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1).astype(np.int32)
        return replace(self, values=self.values[keep], codes=table[self.codes], memory={})

    def remember(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return a result that depends on the distinct values alone; it is computed once and then cached.

        Selections of rows share the cache: a column is parsed when its type is found, when its bins are fitted, and for
        each part of the rows.

        Args:
            key: The key of the result, apart from the values.
            work: Returns the result, which callers must not change.

        >>> cells = Cells.from_texts(["3", "5"])
        >>> cells.remember("longest", lambda: max(cells.values.tolist())), cells.remember("longest", lambda: "")
        ('5', '5')
        """
        if key not in self.memory:
            self.memory[key] = work()
        return self.memory[key]

    def texts(self) -> np.ndarray:
        """Return the text of every row, the marker where the value is missing."""
        return objects([*map(str, self.values.tolist()), self.marker])[self.codes]

    def rows_of(self, place: int, most: int) -> list[int]:
        """Return the first rows that have a distinct value.

        Args:
            place: The position of the value.
            most: How many rows at most.
        """
        return np.flatnonzero(self.codes == place)[:most].tolist()


def solitary_marks(texts: Sequence[str]) -> set[str]:
    """Return the texts that stand for missing values in a column of numbers or dates, such as "?".

    Args:
        texts: The distinct texts of the column.

    >>> sorted(solitary_marks(["1", "?", " Unknown"]))
    ['?', 'Unknown']
    """
    joined = "\n".join(texts)
    if not _END_OF_WORD.search(joined) and "0000-" not in joined:
        return set()
    return {text.strip() for text in texts if len(text) < 20 and text.strip().lower() in SOLITARY_MARKS}


def objects(values: Sequence[object]) -> np.ndarray:
    """Return a one-dimensional array of Python objects.

    Args:
        values: Anything, also lists.

    >>> objects(["a", [1]]).shape
    (2,)
    """
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
