"""Dates and times as a file writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_TOKENS = {
    "%Y": "(?P<Y>[0-9]{4})",
    "%y": "(?P<y>[0-9]{2})",
    "%m": "(?P<m>[0-9]{2})",
    "%-m": "(?P<m>[0-9]{1,2})",
    "%d": "(?P<d>[0-9]{2})",
    "%-d": "(?P<d>[0-9]{1,2})",
    "%H": "(?P<H>[0-9]{2})",
    "%-H": "(?P<H>[0-9]{1,2})",
    "%I": "(?P<I>[0-9]{2})",
    "%-I": "(?P<I>[0-9]{1,2})",
    "%M": "(?P<M>[0-9]{2})",
    "%S": "(?P<S>[0-9]{2})",
    "%p": "(?P<p>[AaPp][Mm])",
    "%b": f"(?P<b>{'|'.join(month[:3] for month in _MONTHS)})",
    "%B": f"(?P<B>{'|'.join(_MONTHS)})",
    "%z": "(?P<z>Z|[+-][0-9]{2}:?[0-9]{2})",
    **{f"%{digits}f": f"(?P<f>[0-9]{{{digits}}})" for digits in range(1, 10)},
    "%f": "(?P<f>[0-9]{1,9})",
}
_TOKEN = re.compile(r"%-?[0-9]?[A-Za-z]")
_ISO = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_DATES = (
    *("%Y-%m-%d", "%Y/%-m/%-d", "%Y-%-m-%-d", "%Y.%-m.%-d"),
    *("%-m/%-d/%Y", "%-d/%-m/%Y", "%-m-%-d-%Y", "%-d-%-m-%Y", "%-d.%-m.%Y"),
    *("%-m/%-d/%y", "%-d/%-m/%y", "%-d.%-m.%y"),
    *("%-d %b %Y", "%-d-%b-%Y", "%-d-%b-%y", "%b %-d, %Y", "%b %-d %Y", "%-d %B %Y", "%B %-d, %Y", "%b %Y", "%B %Y"),
    *("%Y-%m", "%Y%m%d"),
)
_TIMES = ("%-H:%M", "%-H:%M:%S", "%-H:%M:%S.%f", "%-I:%M %p", "%-I:%M:%S %p")
_DAY_FIRST = re.compile(r"%-?d[/-]%-?m")


@dataclass(frozen=True)
class DateFormat:
    """Parse and write the dates of a column.

    Args:
        text: The format in the codes of ``strftime``: %Y %y %m %d %H %I %M %S %f %p %b %B %z, with ``%-d`` for a number
            without leading zero, ``%3f`` for three digits of a second.

    >>> dates, valid = DateFormat("%d.%m.%Y").parse(["31.12.1999", "31.13.1999"])
    >>> dates.astype("datetime64[D]").tolist()[0], valid.tolist(), DateFormat("%-d/%b").write(dates[:1])
    (datetime.date(1999, 12, 31), [True, False], ['31/Dec'])
    """

    text: str

    def __post_init__(self) -> None:
        codes = _TOKEN.findall(self.text)
        unknown = [code for code in codes if code not in _TOKENS]
        names = [code[-1] for code in codes]
        if unknown or not codes or len(set(names)) != len(names) or len(self.text) > 100:
            wrong = f"unknown: {', '.join(unknown)}" if unknown else f"got {self.text[:100]!r}"
            raise ValueError(f"a date format must have the codes of strftime such as %d.%m.%Y, each once; {wrong}")

    def parse(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the dates that texts stand for.

        Args:
            texts: One date per text; spaces around it do not count.

        Returns:
            datetime64 in microseconds, or nanoseconds if the format has more than 6 digits of a second; NaT where a
            text is no date; and which texts are dates. A format without a date begins at 1970-01-01.
        """
        found = [self._pattern.fullmatch(text.strip()) if len(text) < 100 else None for text in texts]
        written = [None if match is None else _iso(match) for match in found]
        unit = "ns" if any(part and len(part) > 26 for part in written) else "us"
        try:
            dates = np.array(["NaT" if part is None else part for part in written], dtype=f"datetime64[{unit}]")
        except ValueError:  # a day that does not exist
            dates = np.array([_or_nat(part) for part in written], dtype=f"datetime64[{unit}]")
        if "%z" in self.text:
            shifts = [0 if match is None else _minutes(match["z"]) for match in found]
            dates = dates - np.array(shifts, dtype="timedelta64[m]")
        return dates, ~np.isnat(dates)

    def write(self, dates: np.ndarray) -> list[str]:
        """Return the texts of dates.

        Args:
            dates: datetime64 without NaT.
        """
        days = dates.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        year = dates.astype("datetime64[Y]").astype(np.int64) + 1970
        seconds = dates.astype("datetime64[s]")
        second = (seconds - days).astype(np.int64)
        nano = (dates - seconds).astype("timedelta64[ns]").astype(np.int64)
        month, day = months.astype(np.int64) % 12, (days - months.astype("datetime64[D]")).astype(np.int64) + 1
        parts = np.stack([year, month, day, second, nano], axis=1).tolist()
        pieces = [piece for piece in re.split(f"({_TOKEN.pattern})", self.text) if piece]
        return ["".join(_write(piece, *part) if piece[0] == "%" else piece for piece in pieces) for part in parts]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _compiled(self.text)


def date_format(texts: Sequence[str], *, day_first: bool = False, least: float = 1.0) -> DateFormat | None:
    """Return the format in which texts are dates, or None.

    Args:
        texts: The distinct texts of a column.
        day_first: How to read 1/2/2024 if every text fits both orders. Default: month first.
        least: The fraction of texts that must be dates. Default: all.

    >>> date_format(["2024-02-01 10:30", "2023-12-31 00:00"]), date_format(["1/13/2024", "12/1/2024"])
    (DateFormat(text='%Y-%m-%d %H:%M'), DateFormat(text='%-m/%-d/%Y'))
    """
    sample = [text.strip() for text in texts[:: max(len(texts) // 50, 1)]]
    if not sample or sum(any(mark.isdigit() for mark in text) and len(text) < 60 for text in sample) < 0.5 * len(
        sample
    ):
        return None
    fits = [
        text for text in _candidates() if sum(map(bool, map(_compiled(text).fullmatch, sample))) >= least * len(sample)
    ]
    if day_first:
        fits.sort(key=lambda text: _DAY_FIRST.search(text) is None)
    best, found = None, 0
    for text in fits:
        valid = int(DateFormat(text).parse(texts)[1].sum())
        if valid > found:
            best, found = text, valid
        if found == len(texts):
            break
    if best is None or found < least * len(texts):
        return None
    return DateFormat(_exact(best, texts, found))


def given_format(text: str, texts: Sequence[str]) -> DateFormat:
    """Return a format that a user gave, with ``%-d`` for ``%d`` and so on if the texts have no leading zeros.

    Args:
        text: The format.
        texts: The distinct texts of the column.

    >>> given_format("%d.%m.%Y", ["1.2.2024"])
    DateFormat(text='%-d.%-m.%Y')
    """
    loose = re.sub(r"%([dmHI])", r"%-\1", text)
    return DateFormat(_exact(loose, texts, sum(_compiled(loose).fullmatch(part.strip()) is not None for part in texts)))


def is_ambiguous(format_: DateFormat, texts: Sequence[str]) -> bool:
    """Return whether day and month could be the other way round.

    Args:
        format_: The format of the column.
        texts: The distinct texts of the column.

    >>> is_ambiguous(DateFormat("%d/%m/%Y"), ["01/02/2024"]), is_ambiguous(DateFormat("%d/%m/%Y"), ["13/02/2024"])
    (True, False)
    """
    other = re.sub(r"(%-?)([dm])([/-])(%-?)([dm])", r"\1\5\3\4\2", format_.text)
    return other != format_.text and all(DateFormat(other).parse([text])[1][0] for text in texts)


@lru_cache
def _candidates() -> tuple[str, ...]:
    joined = [f"{date}{gap}{time}" for date in _DATES[:-2] for time in _TIMES for gap in (" ", "T")]
    plain = [*_ISO, *_DATES, *joined, *_TIMES]
    return tuple([*plain, *(f"{text}%z" for text in (*_ISO, *joined) if "H" in text)])


@lru_cache(maxsize=1024)
def _compiled(text: str) -> re.Pattern[str]:
    pieces = re.split(f"({_TOKEN.pattern})", text)
    return re.compile("".join(_TOKENS[piece] if piece in _TOKENS else re.escape(piece) for piece in pieces))


def _exact(text: str, texts: Sequence[str], found: int) -> str:
    """Return the format with leading zeros and a fixed number of digits where all texts have them."""
    for code in ("%-m", "%-d", "%-H", "%-I"):
        padded = text.replace(code, code.replace("-", ""))
        if padded != text and sum(_compiled(padded).fullmatch(part.strip()) is not None for part in texts) >= found:
            text = padded
    if "%f" in text:
        matches = filter(None, (_compiled(text).fullmatch(part.strip()) for part in texts))
        text = text.replace("%f", f"%{max(len(match['f']) for match in matches)}f")
    return text


def _iso(match: re.Match[str]) -> str | None:
    part = match.groupdict()
    year = part.get("Y") or ""
    if "y" in part:
        year = f"{'19' if int(part['y']) >= 69 else '20'}{part['y']}"
    month = part.get("m") or "1"
    name = part.get("b") or part.get("B")
    if name:
        month = str([month[:3] for month in _MONTHS].index(name[:3]) + 1)
    hour = part.get("H") or "0"
    if "I" in part:
        if not 1 <= int(part["I"]) <= 12:
            return None
        hour = str(int(part["I"]) % 12 + 12 * ((part.get("p") or "am").lower() == "pm"))
    clock = f"{hour:0>2}:{part.get('M') or '00'}:{part.get('S') or '00'}.{part.get('f') or '0'}"
    return f"{year or '1970'}-{month:0>2}-{part.get('d') or '01':0>2}T{clock}"


def _or_nat(part: str | None) -> np.datetime64:
    try:
        return np.datetime64(part or "NaT")
    except ValueError:
        return np.datetime64("NaT")


def _minutes(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    return (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if zone[0] == "-" else 1)


def _write(code: str, year: int, month: int, day: int, second: int, nano: int) -> str:
    hour, minute = second // 3600, second // 60 % 60
    if code[-1] == "f":
        digits = int(code[1]) if code[1].isdigit() else 6
        return f"{nano:09d}"[:digits]
    if code[-1] in "bB":
        return _MONTHS[month] if code[-1] == "B" else _MONTHS[month][:3]
    if code[-1] in "pz":
        return ("PM" if hour >= 12 else "AM") if code[-1] == "p" else "+00:00"
    numbers = {"Y": year, "y": year % 100, "m": month + 1, "d": day, "H": hour, "M": minute, "S": second % 60}
    value = (hour - 1) % 12 + 1 if code[-1] == "I" else numbers[code[-1]]
    return str(value) if code[1] == "-" else f"{value:04d}" if code == "%Y" else f"{value:02d}"
