"""Functional dependencies: columns whose value follows from the value of another column, such as a city from its code.

A dependency is reported if no training row contradicts it and chance is no explanation. If the values of the other
column were permuted over the rows, the column would still follow from the first one with the probability A / M, where M
is the number of different orders, a multinomial coefficient, and A that of the orders in which all n_s rows of each
value s of the first column have one value. A is at most, for any z_j > 0,

    prod_s sum_j z_j^(n_s) / prod_j z_j^(m_j),        m_j rows of value j,

because A is a coefficient of that product; the powers of the frequencies are tried as z. Columns of numbers that have
quantile bins are left out, because a bin is no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauleap._files.printable import one_line
from tauleap.data.limits import STATES
from tauleap.data.table.columns.category import CategoryEncoder
from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.fields import Fields
from tauleap.data.table.columns.number import NumberEncoder

_CHANCE = 1e-6
"""The largest probability that independent columns seem dependent, for all pairs of columns together."""
_FIRST_ROWS, _MORE = 256, 16
"""Rows that are compared first, and the factor by which their number grows for the remaining pairs. Chosen."""
_POWERS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Of the frequencies, that are tried as z."""
_MOST = 200
"""Dependencies that are kept, from the first column on: each has a number for every state."""
_MOST_LINES = 10


@dataclass(frozen=True)
class Dependency:
    """State that one column follows from another one in all training rows.

    Args:
        determinant: The column that determines the other.
        dependent: The column that follows from it.
        states: For each state of the determinant the state of the dependent; -1 if no training row had it.
    """

    determinant: str
    dependent: str
    states: tuple[int, ...]

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return {"determinant": self.determinant, "dependent": self.dependent, "states": list(self.states)}

    @classmethod
    def from_config(cls, config: object) -> Dependency:
        """Return the dependency that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no dependency.
        """
        fields = Fields(config, ("determinant", "dependent", "states"), "a dependency")
        states = fields.items("states", lambda v: v if type(v) is int and -1 <= v < STATES else None, STATES, "a state")
        return cls(fields.text("determinant", 10_000), fields.text("dependent", 10_000), tuple(states))

    def violations(self, columns: Sequence[Column], states: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Return which rows contradict the dependency, (rows,).

        Args:
            columns: The columns of the sites.
            states: States (rows, sites).
            missing: Whether each is missing; such rows do not contradict it.
        """
        places = {column.name: place for place, column in enumerate(columns)}
        first, second = places[self.determinant], places[self.dependent]
        usable = _usable(columns, states, missing)
        table = np.array(self.states)
        known = (usable[:, first] >= 0) & (usable[:, first] < len(table)) & (usable[:, second] >= 0)
        expected = table[np.where(known, usable[:, first], 0)]
        return known & (expected >= 0) & (expected != usable[:, second])


def find_dependencies(columns: Sequence[Column], states: np.ndarray, missing: np.ndarray) -> list[Dependency]:
    """Return the dependencies between pairs of columns, at most 200.

    Args:
        columns: The columns of the sites.
        states: States of the training rows, (rows, sites).
        missing: Whether each is missing.

    >>> from tauleap.data.table.columns import Cells, RawTable, TableEncoder
    >>> city, code = ["Ulm", "Bonn", "Kiel"] * 20, [89073, 53111, 24103] * 20
    >>> raw = RawTable({"city": Cells.from_texts(city), "code": Cells.from_texts([str(number) for number in code])})
    >>> encoder = TableEncoder.fit(raw)
    >>> encoded = encoder.encode(raw)
    >>> found = find_dependencies(encoder.columns, encoded.states, encoded.missing)
    >>> found[0]
    Dependency(determinant='city', dependent='code', states=(1, 0, 2))
    >>> describe_dependencies(found)
    ['city determines code, and code determines city']
    """
    usable = _usable(columns, states, missing)
    eligible = [place for place, column in enumerate(columns) if _has_values(column)]
    limit = math.log(_CHANCE / max(1, len(eligible) * (len(eligible) - 1)))
    # A sample that is spread over the rows: neighbours in a file are often alike.
    order = np.random.default_rng(0).permutation(len(usable))
    found: list[Dependency] = []
    for first in eligible:
        others = np.array([place for place in eligible if place != first])
        number = _FIRST_ROWS
        while len(others):
            rows = usable[order[:number]]
            others = others[_follows(rows[:, first], rows[:, others])]
            if number >= len(usable):
                break
            number *= _MORE
        for second in others.tolist():
            if _log_chance(usable[:, first], usable[:, second]) < limit:
                table = _table(usable[:, first], usable[:, second], columns[first].num_states)
                found.append(Dependency(columns[first].name, columns[second].name, tuple(table.tolist())))
                if len(found) == _MOST:
                    return found
    return found


def describe_dependencies(found: Iterable[Dependency]) -> list[str]:
    """Return lines about the dependencies for the user, one per column that determines others.

    Args:
        found: The dependencies.

    >>> describe_dependencies([Dependency("a", "b", (0, 1)), Dependency("b", "a", (0, 1)), Dependency("c", "a", (1,))])
    ['a determines b, and b determines a', 'c determines a']
    """
    pairs = [(each.determinant, each.dependent) for each in found]
    every, lines = set(pairs), []
    mutual = [(a, b) for a, b in pairs if (b, a) in every]
    shown: set[tuple[str, str]] = set()
    for a, b in mutual:
        if (a, b) not in shown:
            lines.append(f"{_name(a)} determines {_name(b)}, and {_name(b)} determines {_name(a)}")
            shown |= {(a, b), (b, a)}
    one_way: dict[str, list[str]] = {}
    for a, b in pairs:
        if (a, b) not in shown:
            one_way.setdefault(a, []).append(_name(b))
    lines += [f"{_name(a)} determines {one_line(', '.join(names), most=200)}" for a, names in one_way.items()]
    more = [f"and {len(lines) - _MOST_LINES} more lines of this kind"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


def _name(name: str) -> str:
    return one_line(name, most=30)


def _has_values(column: Column) -> bool:
    """Return whether every state of a column stands for one value."""
    encoder = column.encoder.numbers if isinstance(column.encoder, DateEncoder) else column.encoder
    return not isinstance(encoder, NumberEncoder) or all(len(knots) == 1 for knots in encoder.knots)


def _usable(columns: Sequence[Column], states: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return the states, -1 where they are missing or stand for several rare categories."""
    out = np.where(missing, -1, states)
    for place, column in enumerate(columns):
        if isinstance(column.encoder, CategoryEncoder) and column.encoder.other is not None:
            out[out[:, place] == column.encoder.num_states - 1, place] = -1
    return out


def _follows(first: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which of the other columns have one value wherever the first has the same, (columns,)."""
    order = np.argsort(first, kind="stable")
    value, rest = first[order], others[order]
    rest = rest[value >= 0].astype(np.int64)
    value = value[value >= 0]
    if len(value) == 0:
        return np.zeros(others.shape[1], dtype=bool)
    starts = np.flatnonzero(np.diff(value, prepend=value[0] - 1))
    lowest = np.minimum.reduceat(np.where(rest < 0, np.iinfo(np.int64).max, rest), starts)
    highest = np.maximum.reduceat(rest, starts)
    return ((lowest == highest) | (highest < 0)).all(0)


def _log_chance(first: np.ndarray, second: np.ndarray) -> float:
    """Return a bound on the logarithm of the probability that a permuted second column follows from the first."""
    both = (first >= 0) & (second >= 0)
    if not both.any():
        return 0.0
    _, groups = np.unique(first[both], return_counts=True)
    _, rows = np.unique(second[both], return_counts=True)
    orders = math.lgamma(rows.sum() + 1) - sum(math.lgamma(count + 1) for count in rows.tolist())
    sizes, repeats = np.unique(groups, return_counts=True)
    bounds = []
    for power in _POWERS:
        logs = power * np.log(rows / rows.sum())
        exponents = sizes[:, None] * logs
        largest = exponents.max(1)
        sums = largest + np.log(np.exp(exponents - largest[:, None]).sum(1))
        bounds.append(float((repeats * sums).sum() - (rows * logs).sum()))
    return min(0.0, min(bounds) - orders)


def _table(first: np.ndarray, second: np.ndarray, size: int) -> np.ndarray:
    both = (first >= 0) & (second >= 0)
    table = np.full(size, -1, dtype=np.int64)
    table[first[both]] = second[both]
    return table
