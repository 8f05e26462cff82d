"""JSON lines: a text, a list of tokens, or an object with one of them, on each line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tauleap._files import safe_read
from tauleap._files.printable import one_line
from tauleap.data.sequences.files.records import (
    Record,
    SequenceFile,
    check_empty,
    check_suffix,
    numbered_lines,
    shown_line,
)
from tauleap.data.sequences.tokens import Text

SUFFIXES = (".jsonl",)
_NAMES = {str: "a text", int: "a number", float: "a number", bool: "a boolean", type(None): "null", dict: "an object"}


@dataclass(frozen=True)
class JsonLines(SequenceFile):
    """Read one JSON value per line: a text, or a list of texts or of whole numbers; all lines have the same type.

    Args:
        suffix: The ending of the files that are written. Default: ".jsonl".
        text: The entry of objects that has the text or list. Default: None, the lines are no objects.
    """

    kind: ClassVar[str] = "jsonl"
    suffix: str = ".jsonl"
    text: str | None = None

    def __post_init__(self) -> None:
        check_suffix(self.suffix, SUFFIXES)
        if self.text is not None and not isinstance(self.text, str):
            raise ValueError(f"the name of the entry of JSON objects must be a text, got {self.text!r:.60}")

    def read(self, path: Path, *, incomplete: bool = False) -> list[Record]:
        lines = numbered_lines(path)
        check_empty(path, lines, 'remove it; for a row without symbols write "" or []')
        records: list[Record] = []
        first = ""
        for number, line in enumerate(lines, start=1):
            where = f"{path}, line {number:,}"
            try:
                value = safe_read.parse_json(line.encode("utf-8", "surrogatepass"), where)
            except ValueError as error:
                column = getattr(error.__cause__, "colno", None)
                if column is None:
                    reason = one_line(str(error.__cause__ or "it is nested too deep"), most=100)
                    raise ValueError(
                        f"{where}: {shown_line(line)} cannot be read ({reason}): write a text in quotes, or a list of "
                        "texts or whole numbers"
                    ) from error
                raise ValueError(
                    f"{where}, column {column:,}: {shown_line(line)} is not JSON: write a text in quotes, or a list of "
                    "tokens"
                ) from error
            text = self._text(value, where)
            kind = "a text" if isinstance(text, str) else _kind_of_list(text, where, incomplete=incomplete)
            if kind and first and kind != first:
                raise ValueError(f"{where} is {kind}, and the lines above it are {first}: write the same type on all")
            first = first or kind
            # A text without escapes begins after its quote, so that the place of a symbol is known.
            column = line.index('"') + 2 if isinstance(text, str) and self.text is None and "\\" not in line else 0
            extra = _others(value, self.text) if incomplete and self.text is not None else ()
            records.append(Record(text, number, column, extra))
        return records

    def _text(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            if self.text is None:
                names = ", ".join(map(shown_line, list(value)[:5])) or "no entries"
                raise ValueError(
                    f"{where} is an object with {names}: write --text NAME for the entry with the text or the list"
                )
            if self.text not in value:
                raise ValueError(f"{where} has no entry {self.text!r}: add it, or write another name after --text")
            value = value[self.text]
        elif self.text is not None:
            raise ValueError(f"{where} is no object, so that --text {self.text} cannot be read: leave --text out")
        if isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise ValueError(
                f"{where} is {_NAMES.get(type(value), 'another type')}: accepted are a text in quotes, and a list of "
                "texts or of whole numbers"
            )
        return tuple(value)

    def content(self, texts: Sequence[Text], extras: Sequence[tuple[str, ...]] | None, first: int) -> str:
        values: list[Any] = [text if isinstance(text, str) else list(text) for text in texts]
        if self.text is not None:
            found = [()] * len(values) if extras is None else extras
            values = [_as_object(self.text, value, extra) for value, extra in zip(values, found, strict=True)]
        return "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values)


def _others(value: dict[str, Any], name: str) -> tuple[str, str]:
    """Return the place of an entry in its object, and the other entries as JSON."""
    others = {other: entry for other, entry in value.items() if other != name}
    return str(list(value).index(name)), json.dumps(others, ensure_ascii=False)


def _as_object(name: str, value: Any, extra: tuple[str, ...]) -> dict[str, Any]:
    """Return an object with the entry of the row at its place among its other entries."""
    others = list(json.loads(extra[1]).items()) if extra else []
    place = int(extra[0]) if extra else 0
    return dict([*others[:place], (name, value), *others[place:]])


def _kind_of_list(items: tuple[Any, ...], where: str, *, incomplete: bool) -> str:
    """Return what a list has, in words; an empty text for an empty list."""
    kinds = {type(item) for item in items}
    if not kinds:
        return ""
    if incomplete and kinds == {str, int}:  # a wildcard among numbers
        kinds = {int}
    if len(kinds) > 1 or not kinds <= {str, int}:
        at = next(
            at for at, item in enumerate(items) if type(item) not in (str, int) or type(item) is not type(items[0])
        )
        raise ValueError(
            f"{where}, item {at + 1:,} of the list is {_NAMES.get(type(items[at]), 'a list')}, {items[at]!r:.40}: "
            "accepted are texts only, or whole numbers only"
        )
    if "" in items:
        raise ValueError(f"{where}, item {items.index('') + 1:,} of the list is an empty text: remove it")
    return "a list of texts" if kinds == {str} else "a list of whole numbers"
