"""Cut the values of a column into states: atoms first, then quantile bins, finer ones in the tails.

An atom is a state with a single value, such as 0 in a column of amounts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

LEAST_ROWS = 5
"""Rows per bin at least. Chosen before the measurements below, which all have this value."""
PIECES = 8
"""Linear pieces of the quantile function per bin. Found on five public tables: 16 pieces reproduce them no better."""
POINTS = 8
"""Values per bin that keep their own mass. Without them a classifier recognises decoded rows (classifier two-sample
test, 0.535 on the table Default)."""
LEAST_POINT = 3
"""Rows of such a value at least. With 2 rows decoded values are no closer to the data, in a larger configuration."""
MOST_KNOTS = 3 * POINTS + PIECES + 2
"""Knots of one state at most."""
_LEAST_ATOM = 10
"""Rows at least of an atom in the second search, among the values that are not atoms yet. Chosen, not measured."""


@dataclass(frozen=True)
class State:
    """Hold one state of a number column: the positions of its values, and how they are distributed inside it.

    Args:
        first: Position of the lowest value among the distinct values.
        last: Position of the highest value.
        knots: Ascending values: points, or the ends of intervals. An interval of length 0 is a point.
        weights: Rows per point (as many as knots), or rows per interval (one fewer).
    """

    first: int
    last: int
    knots: tuple[float, ...]
    weights: tuple[int, ...]


def cut(values: np.ndarray, counts: np.ndarray, bins: int, decimals: int) -> list[State]:
    """Return the states of a column in ascending order.

    Values that have the rows of a whole bin become atoms, states of one value. The other values are cut into about
    ``bins`` bins with equal numbers of rows. In each tail the outermost bin is halved again and again, down to 5 rows.
    A column with at most ``bins`` distinct values has only atoms if its values repeat (two rows per value), or if there
    are no other values between its extremes. A small table of measurements thus gets bins of at least 5 rows.

    Args:
        values: Distinct finite values, ascending.
        counts: Rows per value.
        bins: The number of quantile bins.
        decimals: The precision of the values; interval ends lie halfway between two numbers of this precision.

    Returns:
        States that together contain every value once.

    >>> [state.knots for state in cut(np.array([0.0, 1.0, 5.0]), np.array([9, 1, 1]), 100, 0)]
    [(0.0,), (1.0,), (5.0,)]
    """
    if len(values) <= bins and (counts.sum() >= 2 * len(values) or _is_dense(values, bins, decimals)):
        return [
            State(i, i, (value,), (rows,))
            for i, (value, rows) in enumerate(zip(values.tolist(), counts.tolist(), strict=True))
        ]
    # In a table of fewer than 20 rows, bins of 5 rows would leave almost nothing to learn.
    least = min(max(int(counts.sum()) // 4, 1), LEAST_ROWS)
    atoms = _atoms(counts, bins, least)
    states = [State(i, i, (float(values[i]),), (int(counts[i]),)) for i in np.flatnonzero(atoms).tolist()]
    for first, last in _groups(counts, atoms, bins, least):
        chosen = slice(first, last + 1)
        states.append(State(first, last, *_inside(values[chosen], counts[chosen], decimals)))
    return sorted(states, key=lambda state: state.first)


def _is_dense(values: np.ndarray, bins: int, decimals: int) -> bool:
    return abs(decimals) <= 15 and bool(values[-1] / 2 - values[0] / 2 <= bins / 2 * 10.0**-decimals)


def _atoms(counts: np.ndarray, bins: int, least: int) -> np.ndarray:
    atoms = counts >= max(counts.sum() / bins, least)
    # One value with most of the rows, such as 0, hides values that are frequent among the other rows.
    rest = int(counts[~atoms].sum())
    return atoms | (counts >= max(rest / bins, _LEAST_ATOM))


def _groups(counts: np.ndarray, atoms: np.ndarray, bins: int, least: int) -> list[tuple[int, int]]:
    """Return the first and last position of each bin; no bin contains an atom."""
    places = np.flatnonzero(~atoms)
    if len(places) == 0:
        return []
    rows = counts[places]
    total = int(rows.sum())
    target = max(total / bins, float(least))
    halves = [target / 2**i for i in range(1, 60) if target / 2**i >= least]
    inner = [target * i for i in range(1, math.ceil(total / target))]
    edges = np.array(sorted({*halves, *inner, *(total - half for half in halves)}))
    group = np.searchsorted(edges, np.cumsum(rows) - rows / 2)
    gap = np.cumsum(atoms)[places]  # values between the same two atoms have the same number
    starts = np.flatnonzero(np.diff(group, prepend=-1).astype(bool) | np.diff(gap, prepend=-1).astype(bool))
    sums = np.add.reduceat(rows, starts)
    merged: list[list[int]] = []
    for start, stop, size in zip(starts.tolist(), [*starts[1:].tolist(), len(places)], sums.tolist(), strict=True):
        same_gap = merged and gap[merged[-1][0]] == gap[start]
        if same_gap and min(size, merged[-1][2]) < least:
            merged[-1][1:] = [stop - 1, merged[-1][2] + size]
        else:
            merged.append([start, stop - 1, size])
    return [(int(places[start]), int(places[stop])) for start, stop, _ in merged]


def _inside(values: np.ndarray, counts: np.ndarray, decimals: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return knots and weights of one bin, as the fields of :class:`State`."""
    rows, distinct = int(counts.sum()), len(values)
    if distinct == 1:
        return (float(values[0]),), (rows,)
    # Values that repeat are typical of the column (prices, doses): a classifier sees if they do not.
    if counts.max() < LEAST_POINT:
        return _pieces(values, counts, decimals)
    points = np.zeros(distinct, dtype=bool)
    points[np.argsort(-counts, kind="stable")[:POINTS]] = True
    points &= counts >= LEAST_POINT
    if points.all():
        return tuple(values.tolist()), tuple(counts.tolist())
    target = max(int(counts[~points].sum()) / PIECES, 4.0)
    knots: list[float] = []
    weights: list[int] = []
    pending = 0
    for place, (value, count) in enumerate(zip(values.tolist(), counts.tolist(), strict=True)):
        if points[place]:
            knots += [value, value]
            weights += [pending, count] if len(knots) > 2 else [count]
            pending = 0
            continue
        if not knots:
            knots.append(value)
        pending += count
        following = place + 1 < distinct and not points[place + 1]
        if pending >= target and following:
            end = _between(value, float(values[place + 1]), decimals)
            if knots[-1] < end:
                knots.append(end)
                weights.append(pending)
                pending = 0
    if not points[-1]:
        knots.append(float(values[-1]))
        weights.append(pending)
    return tuple(knots), tuple(weights)


def _pieces(values: np.ndarray, counts: np.ndarray, decimals: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return intervals with about equal numbers of rows."""
    rows, distinct = int(counts.sum()), len(values)
    pieces = min(PIECES, distinct, max(rows // 4, 1))
    if pieces == 1:
        return (float(values[0]), float(values[-1])), (rows,)
    cumulative = np.cumsum(counts)
    breaks = np.searchsorted(cumulative, rows * np.arange(1, pieces) / pieces) + 1
    breaks = np.unique(breaks[breaks < distinct])
    ends = [_between(float(values[place - 1]), float(values[place]), decimals) for place in breaks.tolist()]
    knots = (float(values[0]), *ends, float(values[-1]))
    if any(low >= high for low, high in pairwise(knots)):  # no float lies between two neighbours
        return (knots[0], knots[-1]), (rows,)
    weights = np.diff(np.concatenate([[0], cumulative[breaks - 1], cumulative[-1:]]))
    return knots, tuple(weights.tolist())


def _between(low: float, high: float, decimals: int) -> float:
    """Return a number between ``low`` and ``high``, halfway between two numbers of the column's precision."""
    middle = low / 2 + high / 2  # without overflow
    if abs(decimals) > 15:
        return middle
    step = 10.0**-decimals
    snapped = (math.floor(middle / step) + 0.5) * step
    return snapped if low < snapped < high else middle
