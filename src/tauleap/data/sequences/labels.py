"""Class labels of rows from columns of a table: categories, and numbers in quantile bins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

BINS = 5
"""Bins of a column of numbers unless the user gives another number."""
_FEW = 10
"""Distinct numbers up to which they are categories."""
_MOST = 1000
"""Classes at most."""


@dataclass(frozen=True)
class LabelColumn:
    """Give a number to each cell of a column.

    Args:
        name: The name of the column.
        values: The categories; empty for a column of numbers.
        edges: The limits between the bins of a column of numbers, ascending; empty for categories.

    >>> LabelColumn("logp", (), (1.0, 2.5)).encode("1.7"), LabelColumn("active", ("no", "yes"), ()).encode("no")
    (1, 0)
    """

    name: str
    values: tuple[str, ...]
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not all(isinstance(value, str) for value in self.values):
            raise ValueError("a column of labels must have a name and categories that are texts")
        finite = all(type(edge) in (int, float) and math.isfinite(edge) for edge in self.edges)
        if not finite or list(self.edges) != sorted(set(self.edges)) or bool(self.values) == bool(self.edges):
            raise ValueError(f"a column of labels must have categories or ascending limits, got {self.edges!r:.60}")

    def encode(self, cell: str) -> int | None:
        """Return the number of a cell; None if it is empty or not in the training data.

        Args:
            cell: The cell.
        """
        if self.values:
            return self.values.index(cell) if cell in self.values else None
        number = _number(cell)
        return None if number is None else int(np.searchsorted(self.edges, number, side="right"))

    def describe(self, number: int) -> str:
        """Return a class of this column as a text.

        Args:
            number: The number of the class.
        """
        if self.values:
            return f"{self.name}={self.values[number]}"
        low = "" if number == 0 else _shown(self.edges[number - 1])
        high = "" if number == len(self.edges) else _shown(self.edges[number])
        return f"{self.name}={low}:{high}"

    @staticmethod
    def fit(name: str, cells: Sequence[str], bins: int) -> LabelColumn:
        """Return the classes of a column: bins of about as many rows for numbers, else its different cells.

        Args:
            name: The name of the column.
            cells: Its cells; empty ones are unknown.
            bins: The number of bins for numbers.

        Raises:
            ValueError: The column has one value only, or too many.
        """
        known = [cell for cell in cells if cell]
        distinct = sorted(set(known))
        numbers = [_number(cell) for cell in known]
        if len(distinct) > _FEW and None not in numbers:
            values = np.array(numbers, dtype=np.float64)
            edges = np.quantile(values, np.arange(1, bins) / bins, method="nearest")
            edges = np.unique(edges[edges > values.min()])
            if not len(edges):  # most cells are the smallest number, which becomes a bin of its own
                edges = np.unique(values)[1:2]
            return LabelColumn(name, (), tuple(np.unique([_rounded(edge, values) for edge in edges]).tolist()))
        if not 2 <= len(distinct) <= _MOST:
            raise ValueError(
                f"the column of labels {name!r} has {len(distinct):,} different values: labels are 2 to {_MOST:,} "
                "categories, or numbers"
            )
        return LabelColumn(name, tuple(distinct), ())


@dataclass(frozen=True)
class Labels:
    """Give a class to each row: the combination of the classes of its columns.

    Args:
        columns: The columns.

    >>> labels = Labels((LabelColumn("a", ("x", "y"), ()), LabelColumn("b", (), (1.5,))))
    >>> labels.number, labels.encode(("y", "3")), labels.names[3], labels.encode(("", "3"))
    (4, 3, 'a=y, b=1.5:', 4)
    """

    columns: tuple[LabelColumn, ...]

    def __post_init__(self) -> None:
        if not self.columns or math.prod(self._sizes) > _MOST:
            raise ValueError(
                f"columns of labels must have at most {_MOST:,} combinations, got {math.prod(self._sizes):,}: write "
                "fewer columns after --label, or fewer --bins"
            )

    @property
    def _sizes(self) -> list[int]:
        return [len(column.values) or len(column.edges) + 1 for column in self.columns]

    @property
    def number(self) -> int:
        """The number of classes."""
        return math.prod(self._sizes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each class, such as "active=yes" or "logp=1.2:3"."""
        places = (np.unravel_index(place, self._sizes) for place in range(self.number))
        return tuple(
            ", ".join(column.describe(int(at)) for column, at in zip(self.columns, place, strict=True))
            for place in places
        )

    def find(self, text: str) -> int | None:
        """Return the class of a text such as "active=yes, logp=1.7"; None if it does not name one class.

        >>> Labels((LabelColumn("a", ("x", "y"), ()), LabelColumn("b", (), (1.5,)))).find("b=7, a=x")
        1

        Args:
            text: One of ``names``, or a value of each column.
        """
        if text in self.names:
            return self.names.index(text)
        words = [text] if len(self.columns) == 1 else text.split(",")
        cells = {name.strip(): cell.strip() for name, _, cell in (word.partition("=") for word in words)}
        if len(words) != len(self.columns) or cells.keys() != {column.name for column in self.columns}:
            return None
        found = self.encode([cells[column.name] for column in self.columns])
        return None if found == self.number else found

    def encode(self, cells: Sequence[str]) -> int:
        """Return the class of a row; ``number`` if a cell is empty or not in the training data.

        Args:
            cells: One cell per column.
        """
        found = [column.encode(cell) for column, cell in zip(self.columns, cells, strict=True)]
        known = [number for number in found if number is not None]
        return self.number if len(known) < len(found) else int(np.ravel_multi_index(known, self._sizes))

    def config(self) -> list[dict[str, Any]]:
        """Return the configuration, which can be saved as JSON."""
        return [{"name": c.name, "values": list(c.values), "edges": list(c.edges)} for c in self.columns]

    @staticmethod
    def from_config(config: object) -> Labels:
        """Return the labels of a configuration that :meth:`config` returned.

        Args:
            config: A list with a mapping per column.

        Raises:
            ValueError: The configuration does not describe labels.
        """
        if not isinstance(config, list | tuple):
            raise ValueError(f"labels must be a list of columns, got {config!r:.60}")
        columns = []
        for each in config:
            if not isinstance(each, Mapping) or set(each) != {"name", "values", "edges"}:
                raise ValueError("a column of labels must have the fields name, values, edges")
            if not isinstance(each["values"], list | tuple) or not isinstance(each["edges"], list | tuple):
                raise ValueError("the values and edges of a column of labels must be lists")
            columns.append(LabelColumn(each["name"], tuple(each["values"]), tuple(each["edges"])))
        return Labels(tuple(columns))


def _rounded(edge: float, values: np.ndarray) -> float:
    """Return the shortest number that separates the same values as an edge, with six digits or more."""
    for digits in range(6, 17):
        shorter = float(f"{edge:.{digits}g}")
        if np.array_equal(values >= shorter, values >= edge):
            return shorter
    return float(edge)


def _shown(edge: float) -> str:
    return f"{edge:g}" if float(f"{edge:g}") == edge else repr(edge)


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
