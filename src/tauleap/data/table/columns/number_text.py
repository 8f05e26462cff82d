"""Numbers as a file writes them: separators, fixed decimals, signs, exponents, currencies and percent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tauleap.data.table.columns.fields import Fields, as_config
from tauleap.data.table.columns.number_style import style_of

_LONGEST = 400
"""Characters of a number: the smallest float64 has 327 decimals."""
_STYLES = (
    *((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'")),
    *((",", "\u00a0"), (".", "\u00a0"), (",", "\u202f"), (".", "\u202f"), (".", "\u2019")),
)
"""Decimal and thousands separators that are recognised; the last ones are spaces without a line break and ’."""
_CURRENCY = (
    r"(?:[A-Z]{0,3}[$]|[€£¥₹₽₩₺₪₫₴₦฿₿¢]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR"
    r"|SGD|HKD|KRW|TRY|RUB|kr|zł|Kč|Ft|Fr\.)"
)
_AFFIXES = re.compile(
    rf"\(?[+\-−]?(?P<prefix>{_CURRENCY}[ \u00a0]?)?[+\-−]?[0-9.,][0-9., '\u00a0\u202f\u2019eE+-]*?"
    rf"(?P<suffix>[ \u00a0\u202f]?(?:{_CURRENCY}|%|‰))?\)?"
)
_PREFIX, _SUFFIX = re.compile(rf"{_CURRENCY}[ \u00a0]?"), re.compile(rf"[ \u00a0\u202f]?(?:{_CURRENCY}|%|‰)")
_FRACTIONS = ("%", "‰")
NEGATIVES = ("-", "−", "()", "$-")
"""How negative numbers are written: with a hyphen, a minus sign, parentheses, or a hyphen after the currency."""
EXPONENTS = ("", "e", "E", "e0", "E0")
"""How exponents are written: not at all, as in 1e+05, or as in 1e5."""


@dataclass(frozen=True)
class NumberFormat:
    """Parse and write the numbers of a column.

    Args:
        decimal: ``"."`` or ``","``. Default: a point.
        thousands: Separator of thousands: empty, a comma, point, space or apostrophe. Default: empty.
        places: Decimals of every number; None if trailing zeros are not written. Default: None.
        prefix: A currency before every number, with the space after it. Default: empty.
        suffix: A currency or a percent sign after every number, with the space before it. Default: empty.
        plus: Whether positive numbers have a plus sign. Default: false.
        negative: How negative numbers are written: ``"-"``, ``"−"``, ``"()"``, or ``"$-"`` for a hyphen after the
            currency. Default: a hyphen.
        exponent: If every number has an exponent, ``"e"`` or ``"E"`` for 1e+05, ``"e0"`` or ``"E0"`` for 1e5. Default:
            empty.
        digits: Digits before the decimal separator, with leading zeros; 0 for .5. Default: 1.

    >>> NumberFormat(",").parse(["1,5", "x"])
    (array([1.5, nan]), array([ True, False]))
    >>> NumberFormat(",", ".", 2, suffix=" €").write(np.array([1234.5]), 2)
    ['1.234,50 €']
    """

    decimal: str = "."
    thousands: str = ""
    places: int | None = None
    prefix: str = ""
    suffix: str = ""
    plus: bool = False
    negative: str = "-"
    exponent: str = ""
    digits: int = 1

    def __post_init__(self) -> None:
        if (self.decimal, self.thousands) not in _STYLES:
            raise ValueError(f"decimal and thousands separators must be one of {_STYLES}")
        if self.prefix and not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f"prefix of a number format must be a currency, got {self.prefix!r}")
        if self.suffix and not _SUFFIX.fullmatch(self.suffix):
            raise ValueError(f"suffix of a number format must be a currency or a percent sign, got {self.suffix!r}")
        if self.negative not in NEGATIVES or self.exponent not in EXPONENTS:
            raise ValueError(f"negative must be one of {NEGATIVES} and exponent one of {EXPONENTS}")

    def parse(self, texts: Sequence[str], valid: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers that texts stand for.

        Args:
            texts: One number per text; spaces around it do not count.
            valid: What :meth:`matches` returned. Default: it is called.

        Returns:
            int64 or uint64 if all numbers are whole and in its range, with 0 where a text is not a number; otherwise
            float64, with NaN there; and which texts are numbers.
        """
        texts = self._bare(texts)
        valid = self._matches_bare(texts) if valid is None else valid.copy()
        plain = [text for text, good in zip(texts, valid.tolist(), strict=True) if good] if not valid.all() else texts
        if self.decimal != "." or self.thousands:
            plain = [self._plain(text) for text in plain]
        joined = "\n".join(plain)
        if plain and not any(mark in joined for mark in ".eEnN"):
            whole = list(map(int, plain))
            for dtype in (np.int64, np.uint64):
                try:
                    return _spread(np.array(whole, dtype=dtype), valid, 0), valid
                except OverflowError:
                    continue
        values = np.fromiter(map(float, plain), np.float64, len(plain))
        for place in np.flatnonzero(np.isinf(values)).tolist():
            if "inf" not in plain[place].lower():  # digits beyond the range of float64
                values[place] = np.nan
        values = _spread(values, valid, np.nan)
        return values, valid & ~np.isnan(values)

    def matches(self, texts: Sequence[str]) -> np.ndarray:
        """Return which texts are numbers in this format.

        Args:
            texts: Any texts.
        """
        return self._matches_bare(self._bare(texts))

    def write(self, values: np.ndarray, decimals: int) -> list[str]:
        """Return the texts of numbers.

        Args:
            values: Integers or floats.
            decimals: Decimals at most, if ``places`` is None.

        Returns:
            One text per number.
        """
        if self.exponent:
            written = [self._scientific(float(value)) for value in values.tolist()]
        elif values.dtype.kind in "iuO" and self.places is None:
            written = [f"{value:,}" for value in values.tolist()] if self.thousands else list(map(str, values.tolist()))
        else:
            written = [self._one(float(value), decimals) for value in values.tolist()]
        if self.decimal != "." or self.thousands not in {"", ","}:
            marks = str.maketrans({".": self.decimal, ",": self.thousands})
            written = [text.translate(marks) for text in written]
        if self._is_bare and not self.plus and self.digits == 1:
            return written
        return [self._dressed(text) for text in written]

    def described(self, texts: Sequence[str], valid: np.ndarray) -> NumberFormat:
        """Return the format with the decimals, signs, exponents and leading zeros that the numbers of a column have.

        Args:
            texts: The distinct texts of the column.
            valid: Which of them are numbers.

        >>> NumberFormat().described(["+1.50", "-2.25"], np.array([True, True])).write(np.array([3.0]), 2)
        ['+3.00']
        """
        bare = list(map(str.strip, self._bare(texts)))
        if not valid.all():
            bare = [text for text, good in zip(bare, valid.tolist(), strict=True) if good]
        if not bare:
            return self
        style = style_of(bare, self.decimal, grouped=bool(self.thousands))
        return replace(self, **style._asdict())

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config("number format", dict(self.__dict__))

    @classmethod
    def from_config(cls, config: object) -> NumberFormat:
        """Return the format that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no format of numbers.
        """
        names = ("decimal", "thousands", "places", "prefix", "suffix", "plus", "negative", "exponent", "digits")
        fields = Fields(config, names, "a number format")
        return cls(
            fields.text("decimal", 1),
            fields.text("thousands", 1),
            fields.optional_integer("places", 0, 300),
            fields.text("prefix", 5),
            fields.text("suffix", 5),
            fields.flag("plus"),
            fields.text("negative", 2),
            fields.text("exponent", 2),
            fields.integer("digits", 0, 30),
        )

    @property
    def _is_bare(self) -> bool:
        return not self.prefix and not self.suffix and self.negative == "-"

    def _bare(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts without currency, percent sign and unusual signs."""
        return texts if self._is_bare else [self._bare_text(text) for text in texts]

    def _bare_text(self, text: str) -> str:
        text = text.strip()
        if self.negative == "()" and text[:1] == "(" and text[-1:] == ")":
            text = f"-{text[1:-1]}"
        text = text.replace("−", "-")
        sign, body = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
        if self.prefix:
            body = body.removeprefix(self.prefix.strip()).lstrip()
        if self.suffix:
            suffix = self.suffix.strip()
            if suffix in _FRACTIONS and not body.endswith(suffix):
                return text + suffix  # 7 is not 7 %
            body = body.removesuffix(suffix).rstrip()
        return sign + body

    def _matches_bare(self, texts: Sequence[str]) -> np.ndarray:
        one, many = _patterns(self.decimal, self.thousands)
        if max(map(len, texts), default=0) <= _LONGEST and many.fullmatch("\n".join([*texts, ""])):
            return np.ones(len(texts), dtype=bool)
        found = (len(text) <= _LONGEST and one.fullmatch(text) is not None for text in texts)
        return np.fromiter(found, bool, len(texts))

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

    def _scientific(self, value: float) -> str:
        if not np.isfinite(value):
            return str(value)
        text = np.format_float_scientific(value, trim="-") if self.places is None else f"{value:.{self.places}e}"
        mantissa, power = text.split("e")
        power = str(int(power)) if self.exponent[1:] else power
        return f"{mantissa}{self.exponent[0]}{power}"

    def _dressed(self, text: str) -> str:
        """Return a plain number with signs, leading zeros, currency and percent sign."""
        is_negative = text.startswith("-")
        body = text.removeprefix("-")
        if self.digits > 1:
            whole, point, rest = body.partition(self.decimal)
            body = f"{whole:0>{self.digits}}{point}{rest}"
        elif self.digits == 0 and body.startswith(f"0{self.decimal}"):
            body = body[1:]
        if is_negative and self.negative == "$-":
            body, is_negative = f"-{body}", False
        body = f"{self.prefix}{body}{self.suffix}"
        if is_negative:
            return f"({body})" if self.negative == "()" else self.negative + body
        return f"+{body}" if self.plus else body


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

    >>> found = [number_format(texts)[0] for texts in (["1,5", "2,25"], ["1,500", "20,125"], ["$5", "$12"])]
    >>> [(form.decimal, form.thousands, form.prefix) for form in found]
    [(',', '', ''), ('.', ',', ''), ('.', '', '$')]
    """
    if not texts:
        return None
    sample = texts[:: max(len(texts) // 100, 1)]
    base = _with_affixes(sample, texts)
    joined = "".join(sample)
    styles = [
        style for style in _STYLES if (decimal != "." or style[0] == ".") and (style[1] < "~" or style[1] in joined)
    ]
    styles.sort(key=lambda style: style[0] != decimal if decimal == "," else False)
    formats = [replace(base, decimal=point, thousands=thousands) for point, thousands in styles]
    if least >= 0.5 and max(form.matches(sample).mean() for form in formats) < 0.2:
        return None
    best, valid, found = None, np.zeros(len(texts), dtype=bool), 0
    for form in formats:
        matched = form.matches(texts)
        # "1,234" is a thousand in a file with decimal points, whatever else a comma could mean.
        grouped = replace(form, decimal=".", thousands=",")
        if (form.decimal, form.thousands) == (",", "") and decimal is None and grouped.matches(texts).all():
            continue
        if matched.sum() > found:
            best, valid, found = form, matched, int(matched.sum())
        if found == len(texts):
            break
    if best is None or found < least * len(texts):
        return None
    return best.described(texts, valid), valid


def is_number(text: str) -> bool:
    """Return whether a text is a number with a decimal point or comma and without thousands separators.

    Args:
        text: The text of a cell.

    >>> is_number("1,5"), is_number("x")
    (True, False)
    """
    return len(text) <= _LONGEST and any(_patterns(decimal, "")[0].fullmatch(text) for decimal in ".,")


def without_affixes(text: str) -> str:
    """Return a number without its currency or percent sign; any other text as it is.

    Args:
        text: The text of a cell.

    >>> without_affixes("$5.00"), without_affixes("5 %"), without_affixes("x1")
    ('5.00', '5', 'x1')
    """
    text = text.strip()
    return _with_affixes([text], [text])._bare_text(text) if _AFFIXES.fullmatch(text) else text


def _with_affixes(sample: Sequence[str], texts: Sequence[str]) -> NumberFormat:
    """Return the format with the currency, the percent sign and the sign of negative numbers that most texts have."""
    found = [match for text in sample if len(text) <= 60 and (match := _AFFIXES.fullmatch(text.strip())) is not None]
    if not found:
        return NumberFormat()
    prefix, suffix = (
        Counter(match[name] or "" for match in found).most_common(1)[0][0] for name in ("prefix", "suffix")
    )
    negative = "-"
    if any(match[0][0] == "(" and match[0][-1] == ")" for match in found):
        negative = "()"
    elif any("−" in text for text in texts):
        negative = "−"
    elif prefix and any(text.strip().startswith(f"{prefix}-") for text in texts):
        negative = "$-"
    return NumberFormat(prefix=prefix, suffix=suffix, negative=negative)


def _spread(values: np.ndarray, valid: np.ndarray, fill: int | float) -> np.ndarray:
    """Return one value per text from the values of valid texts."""
    if valid.all():
        return values
    result = np.full(len(valid), fill, dtype=values.dtype)
    result[valid] = values
    return result


@lru_cache
def _patterns(decimal: str, thousands: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of one number, and that of many, each followed by a line break."""
    point = re.escape(decimal)
    whole = rf"[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+|[0-9]{{1,3}}" if thousands else "[0-9]+"
    after = "[0-9]*" if decimal == "." else "[0-9]+"  # "5," is the end of a clause
    body = rf"(?:(?:{whole})(?:{point}{after})?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
    one = rf" *[+-]?(?:{body}|[iI]nf(?:inity)?) *"
    return re.compile(one), re.compile(rf"(?:{one}\n)*+")
