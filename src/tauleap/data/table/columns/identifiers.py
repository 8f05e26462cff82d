"""Whole numbers that are identifiers: every row has its own, and they do not heap up like quantities."""

from __future__ import annotations

import math
import re

import numpy as np

from tauleap.data.table.columns.cells import Cells

LEAST_ID = 20
"""Rows from which distinct texts are an ID."""
_EVEN = 0.1
"""Distance between an even distribution and that of numbers that count as even. Normal numbers have about .2."""
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|index|idx|nr|no|rownum|row)$|[a-z]I[dD]$|^unnamed: 0$|^$", re.I)
_ID_CASE = re.compile(r"[a-z](Id|ID)$")


def id_reason(name: str, cells: Cells, values: np.ndarray) -> str | None:
    """Return why a column of whole numbers is an ID, or None if it is not.

    Every row must have its own number, and none may be negative. Then it is an ID if

    - the column is called id, no, key, index or the like, or
    - the numbers are consecutive and there are 10 or more, or
    - there are 20 or more, and as many random numbers of the same range would repeat with 95 % probability, or
    - there are 100 or more, and they are spread evenly from the lowest to the highest. (Prices and populations, for
      example, are distinct but heap up.)

    Args:
        name: The name of the column.
        cells: The cells.
        values: The distinct values as numbers.

    >>> cells = Cells.from_texts([str(3 * i) for i in range(50)])
    >>> id_reason("x", cells, np.arange(50) * 3)
    '50 whole numbers from 0 to 147 without repetition'
    """
    count = len(values)
    wide = values.astype(np.float64)
    if cells.num_known != count or count < 2 or wide.min() < 0 or not (wide == np.rint(wide)).all():
        return None
    low, high = int(values.min()), int(values.max())
    if high - low + 1 == count and count >= 10:
        return f"consecutive whole numbers from {low:,} to {high:,}"
    found = f"{count:,} whole numbers from {low:,} to {high:,} without repetition"
    named = _ID_NAME.search(name) is not None or _ID_CASE.search(name) is not None
    # The probability that n random numbers of R differ is about exp(-n**2 / 2R).
    crowded = count >= LEAST_ID and count * count / (2 * (high - low + 1)) >= 3
    return found if named or crowded or (count >= 100 and _is_uniform(wide)) else None


def _is_uniform(values: np.ndarray) -> bool:
    """Return whether numbers could be drawn uniformly from their range, by the Kolmogorov-Smirnov distance."""
    count = len(values)
    along = (np.sort(values) - values.min()) / (values.max() - values.min())
    distance = float(np.abs(along - np.arange(count) / (count - 1)).max())
    return distance <= max(_EVEN, 1.36 / math.sqrt(count))
