"""Numbers as a file writes them: decimal point or comma, thousands separators, fixed decimals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tauleap.data.columns.fields import Fields, as_config

_LONGEST = 400
"""Characters of a number: the smallest float64 has 327 decimals."""
_STYLES = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"))
"""Decimal and thousands separators that are recognised."""


@dataclass(frozen=True)
class NumberFormat:
    """Parse and write the numbers of a column.

    Args:
        decimal: ``"."`` or ``","``. Default: a point.
        thousands: Separator of thousands: empty, ``","``, ``"."``, ``" "`` or ``"'"``. Default: empty.
        places: Decimals of every number; None if trailing zeros are not written. Default: None.

    >>> NumberFormat(",").parse(["1,5", "x"])
    (array([1.5, nan]), array([ True, False]))
    >>> NumberFormat(",", ".", 2).write(np.array([1234.5]), 2)
    ['1.234,50']
    """

    decimal: str = "."
    thousands: str = ""
    places: int | None = None

    def __post_init__(self) -> None:
        if (self.decimal, self.thousands) not in _STYLES:
            raise ValueError(f"decimal and thousands separators must be one of {_STYLES}")

    def parse(self, texts: Sequence[str], valid: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers that texts stand for.

        Args:
            texts: One number per text; spaces around it do not count.
            valid: What :meth:`matches` returned. Default: it is called.

        Returns:
            int64 or uint64 if all are whole numbers of its range, float64 otherwise, with NaN where a text is no
            number; and which texts are numbers.
        """
        valid = self.matches(texts) if valid is None else valid.copy()
        plain = texts if valid.all() else [t if good else "nan" for t, good in zip(texts, valid.tolist(), strict=True)]
        if self.decimal != "." or self.thousands:
            plain = [self._plain(text) for text in plain]
        joined = "\n".join(plain)
        if valid.all() and not any(mark in joined for mark in ".eEnN"):
            whole = list(map(int, plain))
            for dtype in (np.int64, np.uint64):
                try:
                    return np.array(whole, dtype=dtype), valid
                except OverflowError:
                    continue
        values = np.fromiter(map(float, plain), np.float64, len(plain))
        for place in np.flatnonzero(np.isinf(values)).tolist():
            if "inf" not in plain[place].lower():  # digits beyond the range of float64
                values[place], valid[place] = np.nan, False
        return values, valid

    def matches(self, texts: Sequence[str]) -> np.ndarray:
        """Return which texts are numbers in this format.

        Args:
            texts: Any texts.
        """
        one, many = _patterns(self.decimal, self.thousands)
        if max(map(len, texts), default=0) <= _LONGEST and many.fullmatch("\n".join([*texts, ""])):
            return np.ones(len(texts), dtype=bool)
        found = (len(text) <= _LONGEST and one.fullmatch(text) is not None for text in texts)
        return np.fromiter(found, bool, len(texts))

    def write(self, values: np.ndarray, decimals: int) -> list[str]:
        """Return the texts of numbers.

        Args:
            values: Integers or floats.
            decimals: Decimals at most, if ``places`` is None.

        Returns:
            One text per number.
        """
        if values.dtype.kind in "iuO" and self.places is None:
            written = [f"{value:,}" for value in values.tolist()] if self.thousands else list(map(str, values.tolist()))
        else:
            written = [self._one(float(value), decimals) for value in values.tolist()]
        if self.decimal == "." and self.thousands in {"", ","}:
            return written
        marks = str.maketrans({".": self.decimal, ",": self.thousands})
        return [text.translate(marks) for text in written]

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config("number format", {"decimal": self.decimal, "thousands": self.thousands, "places": self.places})

    @classmethod
    def from_config(cls, config: object) -> NumberFormat:
        """Return the format that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no format of numbers.
        """
        fields = Fields(config, ("decimal", "thousands", "places"), "a number format")
        places = fields.optional_integer("places", 0, 300)
        return cls(fields.text("decimal", 1), fields.text("thousands", 1), places)

    def _plain(self, text: str) -> str:
        if self.thousands:
            text = text.replace(self.thousands, "")
        return text.replace(",", ".") if self.decimal == "," else text

    def _one(self, value: float, decimals: int) -> str:
        group = "," if self.thousands else ""
        if self.places is not None:
            return format(value, f"{group}.{self.places}f")
        if value == 0 or not np.isfinite(value):
            return "0" if value == 0 else str(value)
        if not 0 <= decimals <= 15 or abs(value) >= 1e15:
            text = repr(value)
            return text.removesuffix(".0") if not group else format(value, group)
        text = format(value, f"{group}.{decimals}f")
        return text.rstrip("0").rstrip(".") if "." in text else text


def number_format(
    texts: Sequence[str], *, decimal: str | None = None, least: float = 1.0
) -> tuple[NumberFormat, np.ndarray] | None:
    """Return the format in which texts are numbers and which of them are, or None.

    Args:
        texts: The distinct texts of a column.
        decimal: The decimal separator of the file. With a comma, "1.234" is 1234. Default: unknown.
        least: The fraction of texts that must be numbers. Default: all.

    Returns:
        The format that matches most texts, with the decimals of the column if all texts have as many.

    >>> number_format(["1,5", "2,25"])[0], number_format(["1,500", "20,125"])[0]
    (NumberFormat(decimal=',', thousands='', places=None), NumberFormat(decimal='.', thousands=',', places=None))
    """
    if not texts:
        return None
    styles = [style for style in _STYLES if decimal != "." or style[0] == "."]
    styles.sort(key=lambda style: style[0] != decimal if decimal == "," else False)
    sample = texts[:: max(len(texts) // 100, 1)]
    if least >= 0.5 and max(NumberFormat(*style).matches(sample).mean() for style in styles) < 0.2:
        return None
    best, valid, found = None, np.zeros(len(texts), dtype=bool), 0
    for point, thousands in styles:
        style = NumberFormat(point, thousands)
        matched = style.matches(texts)
        # "1,234" is a thousand in a file with decimal points, whatever else a comma could mean.
        if (point, thousands) == (",", "") and decimal is None and NumberFormat(".", ",").matches(texts).all():
            continue
        if matched.sum() > found:
            best, valid, found = style, matched, int(matched.sum())
        if found == len(texts):
            break
    if best is None or found < least * len(texts):
        return None
    return replace(best, places=_fixed_places(texts, valid, best.decimal)), valid


def _fixed_places(texts: Sequence[str], valid: np.ndarray, decimal: str) -> int | None:
    """Return the number of decimals if every number is written with as many, and with one or more."""
    fixed: int | None = None
    for text, good in zip(texts, valid.tolist(), strict=True):
        places = _places(text.strip(), decimal) if good else fixed
        if (good and not places) or (fixed is not None and places != fixed):
            return None
        fixed = places
    return fixed


def _places(text: str, decimal: str) -> int | None:
    """Return the number of decimals as written, or None for a number with an exponent."""
    if text[-1:].isdigit() and "e" not in text and "E" not in text:
        place = text.rfind(decimal)
        return 0 if place < 0 else len(text) - place - 1
    return None


@lru_cache
def _patterns(decimal: str, thousands: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of one number, and that of many, each followed by a line break."""
    point = re.escape(decimal)
    whole = rf"[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+|[0-9]{{1,3}}" if thousands else "[0-9]+"
    after = "[0-9]*" if decimal == "." else "[0-9]+"  # "5," is the end of a clause
    body = rf"(?:(?:{whole})(?:{point}{after})?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    one = rf" *[+-]?(?:{body}|[iI]nf(?:inity)?) *"
    return re.compile(one), re.compile(rf"(?:{one}\n)*+")
