"""The precision of a column: how many decimals and significant digits its values have, and rounding to them."""

from __future__ import annotations

import math

import numpy as np

LARGEST_EXACT = 2**53
"""Up to here every whole number is a float64."""
_POWERS = 22
"""10**22 is the largest power of ten that is a float64, so that a quotient of it is rounded correctly."""


def decimals_of(values: np.ndarray) -> int:
    """Return the smallest number of decimals that reproduces every value.

    A value counts as reproduced if it is the float nearest to a decimal number with so many digits. Columns of full
    precision have the decimals of their largest value: 15 significant digits, 6 for float32, 3 for float16.

    Args:
        values: Finite numbers, integers or floats.

    Returns:
        The number of decimals, negative if all values are multiples of 10, 100, ...

    >>> decimals_of(np.array([0.25, 3.0])), decimals_of(np.array([1200, 300])), decimals_of(np.array([1 / 3]))
    (2, -2, 16)
    """
    largest = float(np.abs(values.astype(np.float64)).max(initial=0.0))
    if largest == 0:
        return 0
    digits = {"float16": 3, "float32": 6}.get(values.dtype.name, 15)
    full = digits - math.floor(math.log10(largest))
    wide = values.astype(np.float64)
    if (wide == np.rint(wide)).all():
        return _trailing_zeros(wide)
    for decimals in range(1, min(full, _POWERS) + 1):
        # Digits that float32 cannot hold do not count.
        if (np.round(wide, decimals).astype(values.dtype) == values).all():
            return decimals
    return full


def significant_of(values: np.ndarray, decimals: int) -> int | None:
    """Return how many significant digits reproduce every value, or None if decimals describe the values as well.

    Args:
        values: Finite numbers.
        decimals: What :func:`decimals_of` returned.

    Returns:
        A number of digits smaller than the largest value has with ``decimals``, or None.

    >>> significant_of(np.array([205.261, 28.7967, 0.3918]), 4)
    6
    """
    wide = np.abs(values.astype(np.float64))
    largest = float(wide.max(initial=0.0))
    if decimals <= 0 or largest < 10:
        return None
    most = decimals + math.floor(math.log10(largest)) + 1
    return next((n for n in range(4, min(most, 15)) if (round_significant(wide, n) == wide).all()), None)


def round_significant(values: np.ndarray, digits: int) -> np.ndarray:
    """Return floats rounded to a number of significant digits.

    Args:
        values: Finite floats.
        digits: The number of digits, 1 to 15.

    >>> round_significant(np.array([205.2613, 0.0]), 6).tolist()
    [205.261, 0.0]
    """
    magnitude = np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values)))).astype(np.int64)
    result = values.copy()
    for power in np.unique(magnitude).tolist():
        chosen = magnitude == power
        if abs(digits - 1 - power) <= _POWERS:
            result[chosen] = np.round(values[chosen], digits - 1 - power)
    return result


def round_decimals(values: np.ndarray, decimals: int) -> np.ndarray:
    """Return floats rounded to a number of decimals; those beyond the precision of float64 stay as they are.

    Args:
        values: Finite floats.
        decimals: The number of decimals, negative for multiples of 10, 100, ...

    >>> round_decimals(np.array([1.26, 17.0]), 1).tolist(), round_decimals(np.array([1.26, 17.0]), -1).tolist()
    ([1.3, 17.0], [0.0, 20.0])
    """
    if abs(decimals) > _POWERS or len(values) == 0:
        return values
    if decimals < 0:
        return np.rint(values / 10.0**-decimals) * 10.0**-decimals
    fits = np.abs(values) < LARGEST_EXACT / 10.0**decimals
    return np.where(fits, np.round(np.where(fits, values, 0.0), decimals), values)


def _trailing_zeros(wide: np.ndarray) -> int:
    zeros = 0
    while zeros < 15 and (np.fmod(wide, 10.0 ** (zeros + 1)) == 0).all():
        zeros += 1
    return -zeros
