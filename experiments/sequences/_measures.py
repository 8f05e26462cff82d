"""Compare rows of symbols: lengths and composition, next to the floor of equally many real rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

Row = Sequence[Hashable]


def variation(first: Counter, second: Counter) -> float:
    """Return the total variation between two tables of counts."""
    a, b = first.total(), second.total()
    return 0.5 * sum(abs(first[key] / a - second[key] / b) for key in first.keys() | second.keys())


def lengths(rows: Iterable[Row]) -> Counter:
    """Return how often each length occurs."""
    return Counter(len(row) for row in rows)


def symbols(rows: Iterable[Row]) -> Counter:
    """Return how often each symbol occurs."""
    return Counter(symbol for row in rows for symbol in row)


def distances(samples: Sequence[Row], reference: Sequence[Row]) -> dict[str, float]:
    """Return the total variation of lengths and of symbols."""
    return {
        "lengths": round(variation(lengths(samples), lengths(reference)), 5),
        "symbols": round(variation(symbols(samples), symbols(reference)), 5),
    }


def floor(n: int, reference: Sequence[Row], draw: Callable[[int], Sequence[Row]], sets: int = 20) -> dict[str, Any]:
    """Return the same of ``n`` real rows: mean and standard deviation over several sets.

    Args:
        n: The number of rows of a set.
        reference: What they are compared with.
        draw: Returns the rows of a set by its number.
        sets: The number of sets.
    """
    found = [distances(draw(number), reference) for number in range(sets)]
    return {"n": n, "sets": sets} | {
        name: [round(float(np.mean(values)), 5), round(float(np.std(values, ddof=1)), 5)]
        for name in ("lengths", "symbols")
        for values in [[each[name] for each in found]]
    }


def fraction(part: int, whole: int) -> list[float]:
    """Return a fraction, its binomial standard error, and the number it is of."""
    value = part / max(whole, 1)
    return [round(value, 5), round((value * (1 - value) / max(whole, 1)) ** 0.5, 5), whole]
