"""Detect the type of a column: number, category, date, boolean, constant, ID or free text.

The rules, in this order:

1. A column without values, or with one value, is a constant.
2. Two words such as yes and no are a boolean.
3. Numbers, apart from marks such as "?" for missing values and at most 2 % of other cells, are a number. Digits with
   leading zeros are codes, not numbers. 8 or 14 digits that all are days or seconds of 1900 to 2100 are dates.
4. Whole numbers without repetition may be an ID; see :func:`id_reason`. Distinct decimals are numbers.
5. Dates and times in one format are a date.
6. Texts of five words or more on average that hardly repeat are free text, as are other texts of which fewer than one
   in ten repeats. 20 or more distinct texts are an ID. All other texts are a category.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from tauleap._files.printable import one_line
from tauleap.data.table.columns.boolean import boolean_words
from tauleap.data.table.columns.cells import Cells, solitary_marks
from tauleap.data.table.columns.date_text import DateFormat, date_format, given_format, is_ambiguous
from tauleap.data.table.columns.durations import UNIT_NAMES
from tauleap.data.table.columns.fields import short
from tauleap.data.table.columns.identifiers import LEAST_ID, id_reason
from tauleap.data.table.columns.number_text import NumberFormat, number_format
from tauleap.data.table.columns.raw import Problem, type_remedy

Type = Literal["number", "category", "date", "boolean", "constant", "id", "text"]
TYPES: tuple[Type, ...] = ("number", "category", "date", "boolean", "constant", "id", "text")

_VALID = 0.98
"""Fraction of cells that must be numbers or dates; the others count as missing. Chosen, not measured."""
_ROUNDED = "; whole numbers of more than 64 bits are rounded to 15 digits"
_LEADING_ZERO = re.compile(r"\n *0[0-9]+ *(?=\n)")


@dataclass(frozen=True)
class Detected:
    """Hold the type of a column and the reason.

    Args:
        type: The type.
        reason: One line for the user.
        cells: The cells, in which marks such as "?" may have become missing.
        number: The format of numbers in text.
        date: The format of dates in text.
        words: The texts of false and true.
        parsed: The numbers or dates that the distinct values stand for.
        valid: Which distinct values stand for a number or date. Default: all.
    """

    type: Type
    reason: str
    cells: Cells
    number: NumberFormat | None = None
    date: DateFormat | None = None
    words: tuple[str, str] | None = None
    parsed: np.ndarray | None = None
    valid: np.ndarray | None = None


def type_problems(types: Mapping[str, str], names: Sequence[str]) -> dict[str, Problem]:
    """Return what is wrong with the types that a user gave, by column name.

    Args:
        types: Types by column name: number, category, date, boolean, constant, id, text, or ``date:FORMAT``.
        names: The columns of the table.

    >>> list(type_problems({"age": "number", "zip": "code"}, ["age", "zip"]))
    ['zip']
    """
    found: dict[str, Problem] = {}
    for name, type_ in types.items():
        if name not in names:
            columns = one_line(", ".join(names), most=500)
            found[name] = Problem(
                f"there is no column {short(name)} to give a type", f"write one of the columns {columns}"
            )
            continue
        kind, _, format_ = type_.partition(":") if isinstance(type_, str) else ("", "", "")
        if kind not in TYPES or (format_ and kind != "date"):
            message = f"the type must be one of {', '.join(TYPES)}, or date:FORMAT, got {short(type_)}"
            found[name] = Problem(message, type_remedy(name), column=name)
        elif format_:
            try:
                DateFormat(format_)
            except ValueError as error:
                found[name] = Problem(str(error), type_remedy(name, "date:%Y-%m-%d"), column=name)
    return found


def detect(name: str, cells: Cells, *, decimal: str | None = None, marks: bool = True) -> Detected:
    """Return the type of a column.

    Args:
        name: The name of the column.
        cells: The cells.
        decimal: The decimal separator of the file, "." or ",". Default: unknown.
        marks: Whether "?", "-" and the like may be missing values. Default: true.

    >>> detect("age", Cells.from_texts(["31", "?", "42", "31"])).type
    'number'
    """
    if len(cells.values) <= 1:
        what = f"every value is {short(cells.values[0])}" if len(cells.values) else "there is no value"
        return Detected("constant", what, cells)
    if cells.kind == "boolean":
        return Detected("boolean", "booleans", cells)
    if cells.kind == "date":
        return Detected("date", "dates", cells)
    if cells.kind == "number":
        return _number(name, cells, None, "")
    if cells.kind == "object":
        return _objects(cells)
    return _text(name, cells, decimal, marks)


def _number(
    name: str,
    cells: Cells,
    format_: NumberFormat | None,
    note: str,
    parsed: np.ndarray | None = None,
    valid: np.ndarray | None = None,
) -> Detected:
    values = cells.values if parsed is None else parsed
    known = values if valid is None else values[valid]
    known = known[np.isfinite(known)] if known.dtype.kind == "f" else known
    whole = bool((known == np.rint(known)).all()) if len(known) else False
    # Whole numbers of a frame become floats where some are missing.
    written_whole = values.dtype.kind in "iu" or (format_ is None and cells.num_known < cells.num_rows and whole)
    unit = "" if format_ is None else (format_.prefix or format_.suffix).strip()
    if 0 < len(known) == len(values) and known.min() == known.max():
        return Detected("constant", f"every value is {short(known[0])}", cells)
    if cells.unit:
        return Detected("number", f"durations, whole {UNIT_NAMES[cells.unit]}, {len(known):,} distinct", cells)
    if written_whole and len(known) == len(values) and not unit:
        reason = id_reason(name, cells, known)
        if reason is not None:
            return Detected("id", reason, cells, format_, parsed=parsed)
    kind = ("whole numbers" if whole else "decimal numbers") + (f" with {unit}" if unit else "")
    reason = f"{kind}, {len(np.unique(known)):,} distinct{note}"
    return Detected("number", reason, cells, format_, parsed=parsed, valid=valid)


def _objects(cells: Cells) -> Detected:
    kinds = {type(value) for value in cells.values.tolist()}
    count, rows = len(cells.values), cells.num_known
    if count == rows >= LEAST_ID:
        # Whole numbers of more than 64 bits, and UUIDs, which are texts here.
        return Detected("id" if len(kinds) == 1 else "text", f"{count:,} values without repetition", cells)
    if rows >= 100 and count > 0.9 * rows:
        return Detected("text", f"{count:,} of {rows:,} values are distinct", cells)
    several = " of several types" if len(kinds) > 1 else ""
    return Detected("category", f"{count:,} distinct values{several}", cells)


def _text(name: str, cells: Cells, decimal: str | None, marks: bool) -> Detected:
    texts = cells.values.tolist()
    words = boolean_words(texts)
    if words is not None:
        return Detected("boolean", f"the words {words[0]} and {words[1]}", cells, words=words)
    found, plain, note = number_format(texts, decimal=decimal, least=0.5), cells, ""
    if marks and (found is None or not found[1].all()):
        plain, note = _without_marks(cells)
        texts = plain.values.tolist()
        found = number_format(texts, decimal=decimal, least=0.5) if plain is not cells else found
    for length, compact in ((8, "%Y%m%d"), (14, "%Y%m%d%H%M%S")):
        if all(len(text) == length and text.isdecimal() for text in texts) and len(texts) >= 5:
            days, valid = DateFormat(compact).parse(texts)
            years = days.astype("datetime64[Y]").astype(np.int64) + 1970
            if valid.all() and years.min() >= 1900 and years.max() <= 2100:
                reason = f"dates written as {compact}{note}"
                return Detected("date", reason, plain, date=DateFormat(compact), parsed=days)
    coded = _LEADING_ZERO.search("\n".join(["", *texts, ""])) is not None
    if found is not None and not coded:
        number, matched = found
        values, valid = plain.remember(number, lambda: number.parse(texts, matched))
        if valid.all() and _is_beyond_integers(texts, values, plain.num_known):
            type_ = "category" if plain.num_known > len(texts) else "id"
            return Detected(type_, f"whole numbers of more than 64 bits, {len(texts):,} distinct{note}", plain)
        if _enough(plain, valid):
            note = _digits_note(texts, values, valid) + note + _bad_note(plain, valid, "numbers")
            return _number(name, plain, number, note, values, valid)
    date = date_format(texts, day_first=decimal == ",", least=0.9)
    if date is not None:
        values, valid = plain.remember(date, lambda: date.parse(texts))
        if _enough(plain, valid):
            note = _date_note(date, texts, values[valid]) + note + _bad_note(plain, valid, "dates")
            reason = f"dates written as {date.text}{note}"
            return Detected("date", reason, plain, date=date, parsed=values, valid=valid)
    return _words(name, cells, coded, _almost(plain, texts, found, date))


def _is_beyond_integers(texts: list[str], values: np.ndarray, rows: int) -> bool:
    """Return whether whole numbers of more than 64 bits are codes, not quantities.

    They are if they would become the same float64, or if none of 20 or more repeats.
    """
    if not _has_more_digits(texts, values):
        return False
    return rows == len(texts) >= LEAST_ID or len(np.unique(values)) < len(texts)


def _has_more_digits(texts: list[str], values: np.ndarray) -> bool:
    """Return whether texts are whole numbers with more digits than the float64 values that they became."""
    if values.dtype.kind != "f" or not (np.abs(values) >= 2**53).any():
        return False
    return all(text.strip().lstrip("+-").isdecimal() for text in texts)


def _digits_note(texts: list[str], values: np.ndarray, valid: np.ndarray) -> str:
    if values.dtype.kind != "f":
        return ""
    chosen = [text for text, good in zip(texts, valid.tolist(), strict=True) if good]
    return _ROUNDED if _has_more_digits(chosen, values[valid]) else ""


def _without_marks(cells: Cells) -> tuple[Cells, str]:
    """Return cells in which "?" and the like are missing, if two other values remain, and a note for the user."""
    found = solitary_marks(cells.values.tolist())
    if not found or len(cells.values) < len(found) + 2:
        return cells, ""
    plain = cells.without(found)
    marks = " and ".join(map(repr, sorted(found)))
    return plain, f"; {marks} {'is' if len(found) == 1 else 'are'} missing"


def _enough(cells: Cells, valid: np.ndarray) -> bool:
    if valid.all():
        return True
    # A few categories that happen to be digits do not make a number column.
    return int(valid.sum()) >= 20 and int(cells.counts[valid].sum()) >= _VALID * cells.num_known


def _date_note(date: DateFormat, texts: Sequence[str], values: np.ndarray) -> str:
    """Return what a user should know about the way in which dates were read."""
    note = ""
    if is_ambiguous(date, texts):
        written = "first" if date.is_day_first else "after the month"
        note += f"; the day is read {written}, the other order fits as well"
    if "%y" in date.text:
        years = values.astype("datetime64[Y]").astype(np.int64) + 1970
        note += f"; two-digit years are {years.min()} to {years.max()}"
    if "%z" in date.text and any(not text.strip().upper().endswith(date.zone) for text in texts):
        note += f"; several time zones, the output has {date.zone}"
    return note


def _bad_note(cells: Cells, valid: np.ndarray, what: str) -> str:
    bad = int(cells.counts[~valid].sum())
    if bad == 1:
        return f"; 1 cell is no {what.removesuffix('s')} and counts as missing"
    return f"; {bad:,} cells are no {what} and count as missing" if bad else ""


def _almost(
    cells: Cells, texts: list[str], number: tuple[NumberFormat, np.ndarray] | None, date: DateFormat | None
) -> str:
    """Return a note about a column of texts of which most are numbers or dates."""
    valid = None if number is None else number[1]
    if valid is None and (date := date or date_format(texts, least=0.5)) is not None:
        valid = date.parse(texts)[1]
    if valid is None or valid.all():
        return ""
    part = float(cells.counts[valid].sum()) / cells.num_known
    other = short(texts[int(np.flatnonzero(~valid)[0])])
    kind = "numbers" if number is not None else "dates"
    return f"; {math.floor(1000 * part) / 10:g} % of the cells are {kind}, and {other} is not" if part >= 0.5 else ""


def _words(name: str, cells: Cells, coded: bool, note: str) -> Detected:
    texts, rows = cells.values.tolist(), cells.num_known
    distinct = len(texts)
    mean_words = float(np.average([text.count(" ") + 1 for text in texts], weights=cells.counts))
    mean_length = float(np.average([len(text) for text in texts], weights=cells.counts))
    if rows >= LEAST_ID and distinct > 0.5 * rows and (mean_words >= 5 or mean_length > 100):
        return Detected("text", f"free text, {mean_words:.0f} words on average", cells)
    if distinct == rows >= LEAST_ID:
        return Detected("id", f"{distinct:,} texts without repetition{note}", cells)
    if rows >= 100 and distinct > 0.9 * rows:
        return Detected("text", f"{distinct:,} of {rows:,} texts are distinct{note}", cells)
    leading = ", digits with leading zeros" if coded else note
    return Detected("category", f"texts, {distinct:,} distinct{leading}", cells)


def as_type(name: str, cells: Cells, given: str, *, decimal: str | None = None, marks: bool = True) -> Detected:
    """Return a column with the type that the user gave.

    Args:
        name: The name of the column.
        cells: The cells.
        given: One of the types, or ``date:FORMAT``.
        decimal: The decimal separator of the file, "." or ",". Default: unknown.
        marks: Whether "?", "-" and the like may be missing values. Default: true.

    Returns:
        The type, with formats that fit most of the cells.

    Raises:
        ValueError: No cell has this type.

    >>> as_type("zip", Cells.from_texts(["10115", "20095"]), "category").type
    'category'
    """
    kind, _, format_ = given.partition(":")
    type_ = cast(Type, kind)
    reason = "given by the user"
    if type_ in ("number", "date") and len(cells.values) == 0:
        return Detected("constant", "there is no value", cells)
    if type_ in ("number", "date") and cells.kind in ("text", "object"):
        texts = [str(value) for value in cells.values.tolist()]
        if marks:
            cells = cells.without(solitary_marks(texts))
            texts = [str(value) for value in cells.values.tolist()]
        if type_ == "number":
            found = number_format(texts, decimal=decimal, least=1e-9)
            if found is not None:
                parsed, valid = found[0].parse(texts, found[1])
                if int(valid.sum()) > 1 and len(np.unique(parsed[valid])) == 1:
                    raise ValueError(
                        f"column {name!r} has numbers that are all equal after rounding to 15 digits, "
                        "so that there is nothing to learn from them as numbers"
                    )
                reason += _digits_note(texts, parsed, valid)
                return Detected("number", reason, cells, number=found[0], parsed=parsed, valid=valid)
        else:
            date = given_format(format_, texts) if format_ else date_format(texts, day_first=decimal == ",", least=1e-9)
            if date is not None and (found := date.parse(texts))[1].any():
                reason += _date_note(date, texts, found[0][found[1]]) if not format_ else ""
                return Detected("date", reason, cells, date=date, parsed=found[0], valid=found[1])
        shown = ", ".join(short(text) for text in texts[:3])
        what = type_ if not format_ else f"date in the format {format_}"
        raise ValueError(f"column {name!r} has no {what}; its first values are {shown}")
    if type_ == "date" and cells.kind != "date":
        raise ValueError(f"column {name!r} has {cells.kind} values, but no dates")
    if type_ == "number" and cells.kind == "date":
        raise ValueError(f"column {name!r} has dates, not numbers")
    if type_ == "boolean":
        if len(cells.values) != 2:
            raise ValueError(f"column {name!r} has {len(cells.values):,} distinct values, and a boolean has 2")
        if cells.kind == "text":
            low, high = boolean_words(cells.values.tolist()) or tuple(sorted(cells.values.tolist()))
            return Detected("boolean", reason, cells, words=(low, high))
        if cells.kind == "number" and sorted(cells.values.tolist()) != [0, 1]:
            raise ValueError(f"column {name!r} has numbers other than 0 and 1, so it is not boolean")
    if type_ == "constant" and len(cells.values) > 1:
        raise ValueError(f"column {name!r} has {len(cells.values):,} distinct values, and a constant has 1")
    return Detected(type_, reason, cells)
