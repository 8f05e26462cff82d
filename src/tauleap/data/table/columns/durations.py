"""Durations (timedelta64) as whole numbers of a unit, and as pandas writes them in files."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

UNITS = {
    "D": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""Nanoseconds per unit, from days to nanoseconds."""
UNIT_NAMES = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
"""Units in words."""
_TEXT = re.compile(
    r"(?P<negative>-)?(?:(?P<days>[0-9]{1,6}) days?)?(?:(?(days) )(?P<plus>\+)?"
    r"(?P<hours>[0-9]{1,2}):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2})(?:\.(?P<part>[0-9]{1,9}))?)?"
)


def coarsest_unit(nanoseconds: np.ndarray) -> str:
    """Return the coarsest unit that all durations are whole numbers of.

    Args:
        nanoseconds: int64.

    >>> coarsest_unit(np.array([0, 7_200_000_000_000]))
    'h'
    """
    return next(unit for unit, size in UNITS.items() if (nanoseconds % size == 0).all())


def convert_unit(values: np.ndarray, unit: str, to: str) -> np.ndarray:
    """Return durations in another unit, as whole numbers if all of them are.

    Args:
        values: Numbers of ``unit``.
        unit: Their unit.
        to: The unit of the result.

    >>> convert_unit(np.array([90]), "m", "h"), convert_unit(np.array([1.5]), "h", "m")
    (array([1.5]), array([90]))
    """
    exact = values * UNITS[unit]
    nanoseconds = np.rint(exact).astype(np.int64) if exact.dtype.kind == "f" else exact
    return nanoseconds // UNITS[to] if (nanoseconds % UNITS[to] == 0).all() else nanoseconds / UNITS[to]


def duration_texts(values: np.ndarray, unit: str) -> list[str]:
    """Return durations as pandas writes them, such as ``0 days 03:00:00``.

    A negative duration has negative days and a positive time of day: -3 hours are ``-1 days +21:00:00``.

    Args:
        values: Whole numbers.
        unit: Their unit.

    >>> duration_texts(np.array([3, -3]), "h")
    ['0 days 03:00:00', '-1 days +21:00:00']
    """
    texts = []
    for value in values.tolist():
        days, rest = divmod(value * UNITS[unit], UNITS["D"])
        seconds, part = divmod(rest, UNITS["s"])
        written = f"{days} days {'+' if days < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        texts.append(written + (f".{part:09}" if part % 1000 else f".{part // 1000:06}" if part else ""))
    return texts


def parse_durations(texts: Sequence[str], unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the durations that texts stand for.

    Args:
        texts: ``3 days 12:30:00``, ``-1 days +21:00:00``, ``3 days`` or ``12:30:00``.
        unit: The unit of the result.

    Returns:
        Numbers of the unit, 0 where a text is no duration; and which texts are durations.

    >>> parse_durations(["0 days 03:00:00", "-1 days +21:00:00", "3"], "h")
    (array([ 3, -3,  0]), array([ True,  True, False]))
    """
    found = [_nanoseconds(text.strip()) for text in texts]
    valid = np.array([value is not None for value in found], dtype=bool)
    return convert_unit(np.array([value or 0 for value in found], dtype=np.int64), "ns", unit), valid


def _nanoseconds(text: str) -> int | None:
    match = _TEXT.fullmatch(text)
    if match is None or (match["days"] is None and match["hours"] is None):
        return None
    clock = 0
    if match["hours"] is not None:
        clock = (int(match["hours"]) * 3600 + int(match["minutes"]) * 60 + int(match["seconds"])) * UNITS["s"]
        clock += int((match["part"] or "").ljust(9, "0"))
    days = int(match["days"] or 0) * UNITS["D"]
    if match["negative"]:
        # "-1 days +21:00:00" is three hours before zero, as is "-03:00:00".
        days, clock = -days, clock if match["plus"] else -clock
    value = days + clock
    return value if abs(value) < 2**63 else None
