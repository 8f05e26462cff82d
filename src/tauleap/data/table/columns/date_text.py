"""Dates and times as a file writes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

FIRST_YEAR = 1950
"""First of the hundred years that two digits stand for, if a column does not show it."""
_LATEST_YEAR = 2049
"""A column of two-digit years does not reach beyond this year. Chosen: dates of the past are more frequent."""
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_MONTH = rf"(?:{'|'.join(month[:3] for month in _MONTHS)}|Sept)\.?"
_SHORT_DAY = "|".join(day[:3] for day in _DAYS)
_ZONE = r"(?:Z|UTC|GMT|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
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
    **{f"%{case}p": "(?P<p>[AP]M)" for case in ("", "#")},
    **{f"%{case}b": f"(?P<b>{_SHORT_MONTH})" for case in ("", "^", "#")},
    **{f"%{case}B": f"(?P<B>{'|'.join(_MONTHS)}|{_SHORT_MONTH})" for case in ("", "^", "#")},
    **{f"%{case}a": f"(?P<a>{_SHORT_DAY})" for case in ("", "^", "#")},
    **{f"%{case}A": f"(?P<A>{'|'.join(_DAYS)})" for case in ("", "^", "#")},
    "%z": f"(?P<z>{_ZONE})",
    **{f"%{digits}f": f"(?P<f>[0-9]{{{digits}}})" for digits in range(1, 10)},
    "%f": "(?P<f>[0-9]{1,9})",
}
"""Codes of strftime and their patterns. As in the GNU library, ``-`` removes leading zeros and ``^`` makes upper case;
``#`` makes lower case."""
_TOKEN = re.compile(r"%[-^#]?[0-9]?[A-Za-z]")
_ISO = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_DATES = (
    *("%Y-%m-%d", "%Y/%-m/%-d", "%Y-%-m-%-d", "%Y.%-m.%-d"),
    *("%-m/%-d/%Y", "%-d/%-m/%Y", "%-m-%-d-%Y", "%-d-%-m-%Y", "%-d.%-m.%Y"),
    *("%-m/%-d/%y", "%-d/%-m/%y", "%-m-%-d-%y", "%-d-%-m-%y", "%-d.%-m.%y"),
    *("%-d %b %Y", "%-d-%b-%Y", "%-d/%b/%Y", "%-d-%b-%y", "%-d %b %y", "%b %-d, %Y", "%b %-d %Y"),
    *("%-d%b%Y", "%Y-%b-%-d"),
    *(
        "%-d %B %Y",
        "%-d %B %y",
        "%B %-d, %Y",
        "%B %-d %Y",
        "%a, %-d %b %Y",
        "%a %-d %b %Y",
        "%A, %B %-d, %Y",
        "%A, %-d %B %Y",
    ),
)
_DATES_WITHOUT_TIME = ("%m/%Y", "%m-%Y", "%Y/%m", "%b %Y", "%b-%Y", "%b %y", "%b-%y", "%B %Y", "%Y-%m", "%Y%m%d")
_TIMES = ("%-H:%M", "%-H:%M:%S", "%-H:%M:%S.%f", "%-I:%M %p", "%-I:%M:%S %p", "%-I:%M%p", "%-I:%M:%S%p")
_MOMENTS = (
    *("%-d/%b/%Y:%-H:%M:%S", "%a %b %-d %-H:%M:%S %Y"),
    *("%Y%m%dT%H%M%S", "%Y%m%d %H:%M:%S", "%Y%m%d %H:%M", "%-d%b%Y:%H:%M:%S"),
)
_DAY_FIRST = re.compile(r"%-?d[/-]%-?m")
_WORD = re.compile("[A-Za-z]+")
_WORDS = frozenset(
    {"t", "z", "am", "pm", "utc", "gmt", "sept"}
    | {name[:cut].lower() for name in (*_MONTHS, *_DAYS) for cut in (3, len(name))}
)


@dataclass(frozen=True)
class DateFormat:
    """Parse and write the dates of a column.

    Args:
        text: The format in the codes of ``strftime``: %Y %y %m %d %H %I %M %S %f %p %b %B %a %A %z, with ``%-d`` for a
            number without leading zero, ``%3f`` for three digits of a second, ``%^b`` and ``%#b`` for names in upper
            and lower case. Names are English.
        zone: The time zone of parsed and written dates as the column writes it, such as ``+02:00``. Default: UTC.
        first_year: The first of the hundred years that ``%y`` stands for. Default: 1950.

    >>> dates, valid = DateFormat("%d.%m.%Y").parse(["31.12.1999", "31.13.1999"])
    >>> dates.astype("datetime64[D]").tolist()[0], valid.tolist(), DateFormat("%-d/%b").write(dates[:1])
    (datetime.date(1999, 12, 31), [True, False], ['31/Dec'])
    """

    text: str
    zone: str = ""
    first_year: int = FIRST_YEAR

    def __post_init__(self) -> None:
        codes = _TOKEN.findall(self.text)
        unknown = [code for code in codes if code not in _TOKENS]
        names = [code[-1] for code in codes]
        if unknown or not codes or len(set(names)) != len(names) or len(self.text) > 100:
            wrong = f"unknown: {', '.join(unknown)}" if unknown else f"got {self.text[:100]!r}"
            raise ValueError(f"a date format must have the codes of strftime such as %d.%m.%Y, each once; {wrong}")
        if self.zone and not re.fullmatch(_ZONE, self.zone):
            raise ValueError(f"zone of a date format must be Z, UTC, GMT or such as +02:00, got {self.zone[:20]!r}")
        if not 0 <= self.first_year <= 9900:
            raise ValueError(f"first_year of a date format must be 0..9900, got {self.first_year}")

    @property
    def offset(self) -> np.timedelta64:
        """The difference between the zone and UTC."""
        return np.timedelta64(_minutes(self.zone) if self.zone else 0, "m")

    @property
    def is_time(self) -> bool:
        """Whether the format has the time of the day alone."""
        return not {code[-1] for code in _TOKEN.findall(self.text)} & set("YymdbBz")

    @property
    def is_day_first(self) -> bool:
        """Whether the day stands before the month."""
        places = [max(self.text.find(code), self.text.find(f"%-{code[1]}")) for code in ("%d", "%m")]
        return 0 <= places[0] < places[1]

    def parse(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the dates that texts stand for.

        Args:
            texts: One date per text; spaces around it do not count.

        Returns:
            datetime64 in microseconds, or nanoseconds if the format has more than 6 digits of a second; NaT where a
            text is no date; and which texts are dates. Texts with a time zone are converted to ``zone``. A format
            without a date begins at 1970-01-01.
        """
        found = [self._pattern.fullmatch(text.strip()) if len(text) < 100 else None for text in texts]
        written = [None if match is None else _iso(match, self.first_year) for match in found]
        unit = "ns" if any(part and len(part) > 26 for part in written) else "us"
        try:
            dates = np.array(["NaT" if part is None else part for part in written], dtype=f"datetime64[{unit}]")
        except ValueError:  # a day that does not exist
            dates = np.array([_or_nat(part) for part in written], dtype=f"datetime64[{unit}]")
        if "%z" in self.text:
            shifts = [0 if match is None else _minutes(match["z"]) for match in found]
            dates = dates - np.array(shifts, dtype="timedelta64[m]") + self.offset
        return dates, ~np.isnat(dates)

    def write(self, dates: np.ndarray) -> list[str]:
        """Return the texts of dates.

        Args:
            dates: datetime64 without NaT, in the time zone of the format.
        """
        days = dates.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        year = dates.astype("datetime64[Y]").astype(np.int64) + 1970
        seconds = dates.astype("datetime64[s]")
        second = (seconds - days).astype(np.int64)
        nano = (dates - seconds).astype("timedelta64[ns]").astype(np.int64)
        month, day = months.astype(np.int64) % 12, (days - months.astype("datetime64[D]")).astype(np.int64) + 1
        weekday = (days.astype(np.int64) + 3) % 7
        parts = np.stack([year, month, day, second, nano, weekday], axis=1).tolist()
        pieces = [piece for piece in re.split(f"({_TOKEN.pattern})", self.text) if piece]
        zone = self.zone or "+00:00"
        return [
            "".join(zone if piece == "%z" else _write(piece, *part) if piece in _TOKENS else piece for piece in pieces)
            for part in parts
        ]

    def described(self, texts: Sequence[str]) -> DateFormat:
        """Return the format with the time zone and the century that the dates of a column have.

        Args:
            texts: The distinct texts of the column.

        >>> DateFormat("%d.%m.%y").described(["01.02.61", "01.02.79"]).parse(["01.02.61"])[0].astype("datetime64[Y]")
        array(['1961'], dtype='datetime64[Y]')
        """
        if "%z" not in self.text and "%y" not in self.text:
            return self
        found = [match for text in texts if len(text) < 100 and (match := self._pattern.fullmatch(text.strip()))]
        if not found:
            return self
        zone, first_year = self.zone, self.first_year
        if "%z" in self.text:
            zone = Counter(match["z"].upper() for match in found).most_common(1)[0][0]
        if "%y" in self.text:
            first_year = _first_year({int(match["y"]) for match in found})
        return replace(self, zone=zone, first_year=first_year)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _compiled(self.text)


def date_format(texts: Sequence[str], *, day_first: bool = False, least: float = 1.0) -> DateFormat | None:
    """Return the format in which texts are dates, or None.

    Args:
        texts: The distinct texts of a column.
        day_first: How to read 1/2/2024 if every text fits both orders. Default: month first.
        least: The fraction of texts that must be dates. Default: all.

    >>> date_format(["2024-02-01 10:30", "2023-12-31 00:00"]).text, date_format(["1/13/2024", "12/1/2024"]).text
    ('%Y-%m-%d %H:%M', '%-m/%-d/%Y')
    """
    sample = [text.strip() for text in texts[:: max(len(texts) // 50, 1)]]
    likely = [text for text in sample if _may_be_date(text)]
    if not likely or len(likely) < min(least, 0.5) * len(sample):
        return None
    probes = likely[:5]
    fits = [
        text
        for text in _candidates()
        if any(map(_compiled(text).fullmatch, probes))
        and sum(map(bool, map(_compiled(text).fullmatch, sample))) >= least * len(sample)
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
    return DateFormat(_exact(best, texts, found)).described(texts)


def given_format(text: str, texts: Sequence[str]) -> DateFormat:
    """Return a format that a user gave, with ``%-d`` for ``%d`` and so on if the texts have no leading zeros.

    Args:
        text: The format.
        texts: The distinct texts of the column.

    >>> given_format("%d.%m.%Y", ["1.2.2024"]).text
    '%-d.%-m.%Y'
    """
    loose = re.sub(r"%([dmHI])", r"%-\1", text)
    found = sum(_compiled(loose).fullmatch(part.strip()) is not None for part in texts)
    return DateFormat(_exact(loose, texts, found)).described(texts)


def is_ambiguous(format_: DateFormat, texts: Sequence[str]) -> bool:
    """Return whether day and month could be the other way round.

    Args:
        format_: The format of the column.
        texts: The distinct texts of the column.

    >>> is_ambiguous(DateFormat("%d/%m/%Y"), ["01/02/2024"]), is_ambiguous(DateFormat("%d/%m/%Y"), ["13/02/2024"])
    (True, False)
    """
    if format_.text.startswith("%Y"):  # year, day and month are never written in this order
        return False
    other = re.sub(r"(%-?)([dm])([/-])(%-?)([dm])", r"\1\5\3\4\2", format_.text)
    return other != format_.text and all(DateFormat(other).parse([text])[1][0] for text in texts)


@lru_cache
def _candidates() -> tuple[str, ...]:
    joined = [f"{date}{gap}{time}" for date in _DATES for time in _TIMES for gap in (" ", "T", ", ")]
    plain = [*_ISO, *_DATES, *_DATES_WITHOUT_TIME, *joined, *_MOMENTS, *_TIMES]
    zoned = [f"{text}{gap}%z" for text in (*_ISO, *joined, *_MOMENTS) if "H" in text for gap in ("", " ")]
    return (*plain, *zoned)


def _may_be_date(text: str) -> bool:
    has_digit = len(text) < 60 and any(mark.isdigit() for mark in text)
    return has_digit and all(word.lower() in _WORDS for word in _WORD.findall(text))


@lru_cache(maxsize=2048)
def _compiled(text: str) -> re.Pattern[str]:
    pieces = re.split(f"({_TOKEN.pattern})", text)
    pattern = "".join(_TOKENS[piece] if piece in _TOKENS else re.escape(piece) for piece in pieces)
    return re.compile(pattern, re.IGNORECASE)


def _exact(text: str, texts: Sequence[str], found: int) -> str:
    """Return the format with leading zeros, a fixed number of digits and the case of names that all texts have."""
    for code in ("%-m", "%-d", "%-H", "%-I"):
        padded = text.replace(code, code.replace("-", ""))
        if padded != text and sum(_compiled(padded).fullmatch(part.strip()) is not None for part in texts) >= found:
            text = padded
    if "%f" in text:
        matches = filter(None, (_compiled(text).fullmatch(part.strip()) for part in texts))
        text = text.replace("%f", f"%{max((len(match['f']) for match in matches), default=6)}f")
    for code in ("b", "B", "a", "A", "p"):
        names = [
            match[code] for part in texts if f"%{code}" in text and (match := _compiled(text).fullmatch(part.strip()))
        ]
        if names:
            upper = "^" if code != "p" else ""
            case = upper if all(map(str.isupper, names)) else "#" if all(map(str.islower, names)) else ""
            point = "." if code == "b" and all(name.endswith(".") for name in names) else ""
            text = text.replace(f"%{code}", f"%{case}{code}{point}")
    return text


def _first_year(years: Iterable[int]) -> int:
    """Return the first of the hundred years that two-digit years stand for: the longest gap lies outside the data."""
    used = sorted(set(years))
    gaps = {start: (start - end - 1) % 100 for end, start in zip([used[-1], *used], used, strict=False)}
    start = max(used, key=lambda year: gaps[year])
    gap = gaps[start]
    if gap < 5:  # the years fill the century
        return FIRST_YEAR
    last = 2000 + start + 99 - gap
    return 2000 + start - 100 * (last > _LATEST_YEAR) - gap // 2


def _iso(match: re.Match[str], first_year: int) -> str | None:
    part = match.groupdict()
    year = part.get("Y") or ""
    if "y" in part:
        year = f"{first_year + (int(part['y']) - first_year) % 100:04d}"
    month = part.get("m") or "1"
    name = part.get("b") or part.get("B")
    if name:
        month = str([month[:3].lower() for month in _MONTHS].index(name[:3].lower()) + 1)
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
    if zone[0] not in "+-":
        return 0
    digits = f"{zone[1:].replace(':', ''):0<4}"
    return (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if zone[0] == "-" else 1)


def _write(code: str, year: int, month: int, day: int, second: int, nano: int, weekday: int) -> str:
    hour, minute, letter = second // 3600, second // 60 % 60, code[-1]
    if letter == "f":
        digits = int(code[1]) if code[1].isdigit() else 6
        return f"{nano:09d}"[:digits]
    if letter in "bBaA":
        name = _MONTHS[month] if letter in "bB" else _DAYS[weekday]
        name = name if letter in "BA" else name[:3]
        return {"^": name.upper(), "#": name.lower()}.get(code[1], name)
    if letter == "p":
        half = "PM" if hour >= 12 else "AM"
        return half.lower() if code[1] == "#" else half
    numbers = {"Y": year, "y": year % 100, "m": month + 1, "d": day, "H": hour, "M": minute, "S": second % 60}
    value = (hour - 1) % 12 + 1 if letter == "I" else numbers[letter]
    return str(value) if code[1] == "-" else f"{value:04d}" if code == "%Y" else f"{value:02d}"
