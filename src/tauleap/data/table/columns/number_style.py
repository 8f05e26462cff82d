"""How the numbers of a column are written: decimals, plus signs, exponents and leading zeros that all of them have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_LEADING = re.compile(r"(?:^|\n)[+-]?(?:0[0-9]|[.,])")
_MOST_DIGITS = 30


class NumberStyle(NamedTuple):
    """Hold the fields of a number format that follow from all numbers of a column.

    Args:
        places: Decimals of every number, or None if they differ.
        plus: Whether positive numbers have a plus sign.
        exponent: How exponents are written if every number has one, else empty.
        digits: Digits before the decimal separator.
    """

    places: int | None
    plus: bool
    exponent: str
    digits: int


def style_of(texts: Sequence[str], decimal: str, *, grouped: bool) -> NumberStyle:
    """Return how numbers are written.

    One search in all texts together rules out what most columns do not have, such as exponents.

    Args:
        texts: One or more numbers without currency and without spaces around them.
        decimal: The decimal separator.
        grouped: Whether there are separators of thousands.

    >>> style_of(["+1.50", "-2.25"], ".", grouped=False)
    NumberStyle(places=2, plus=True, exponent='', digits=1)
    """
    joined = "\n".join(texts)
    exponent = _exponent(texts) if "e" in joined or "E" in joined else ""
    mantissas = [re.split("[eE]", text)[0] for text in texts] if exponent else texts
    return NumberStyle(
        _fixed_places(mantissas, decimal),
        "+" in joined and _has_plus(texts),
        exponent,
        _digits(mantissas, decimal, grouped=grouped) if _LEADING.search(joined) else 1,
    )


def _has_plus(texts: Sequence[str]) -> bool:
    positive = [text for text in texts if text[0] != "-"]
    return bool(positive) and all(text[0] == "+" for text in positive)


def _exponent(texts: Sequence[str]) -> str:
    if not all("e" in text or "E" in text for text in texts):
        return ""
    letter = "E" if "E" in texts[0] else "e"
    short = any(re.search("[eE]-?[1-9][0-9]?$", text) for text in texts)
    return f"{letter}0" if short and not any(re.search("[eE]([+]|-?0)", text) for text in texts) else letter


def _digits(texts: Sequence[str], decimal: str, *, grouped: bool) -> int:
    whole = [text.lstrip("+-").partition(decimal)[0] for text in texts]
    if "" in whole and "0" not in whole:
        return 0
    padded = not grouped and min(map(len, whole)) == max(map(len, whole)) > 1
    return min(len(whole[0]), _MOST_DIGITS) if padded and any(text[0] == "0" for text in whole) else 1


def _fixed_places(texts: Sequence[str], decimal: str) -> int | None:
    """Return the number of decimals if every number is written with as many, and with one or more."""
    places = len(texts[0]) - texts[0].rfind(decimal) - 1 if decimal in texts[0] else 0
    if places == 0 or not texts[0][-1].isdigit():
        return None
    pattern = rf"(?:[^\n]*{re.escape(decimal)}[0-9]{{{places}}}\n)*+"
    return places if re.fullmatch(pattern, "\n".join([*texts, ""])) else None
