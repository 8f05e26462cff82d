"""Read the fields of an encoder from JSON of unknown origin, where every error is one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from tauleap._files.printable import one_line

T = TypeVar("T")
Scalar = str | int | float | bool


class Fields:
    """Take the fields of one JSON object by name and check their types and ranges.

    Args:
        config: What JSON holds at this place.
        names: The fields that the object must have, apart from ``type``.
        where: The object in messages, such as ``"a number encoder"``.

    Raises:
        ValueError: It is no object, or its fields are others.

    >>> Fields({"type": "number", "decimals": 2}, ("decimals",), "a number encoder").integer("decimals", 0, 9)
    2
    """

    def __init__(self, config: object, names: tuple[str, ...], where: str) -> None:
        if not isinstance(config, Mapping):
            raise ValueError(f"{where} must be an object with the fields {', '.join(names)}, got {short(config)}")
        wrong = (set(map(str, config)) - {"type"}) ^ set(names)
        if wrong:
            found = one_line(", ".join(sorted(wrong)), most=200)
            raise ValueError(f"{where} must have the fields {', '.join(names)}; missing or unknown: {found}")
        self.config, self.where = config, where

    def get(self, name: str, check: Callable[[object], T | None], expected: str) -> T:
        """Return a field that passes a check.

        Args:
            name: The field.
            check: Returns the value to use, or None if the field is not valid.
            expected: The valid values in words.

        Returns:
            What ``check`` returned.

        Raises:
            ValueError: ``check`` returned None.
        """
        value = check(self.config[name])
        if value is None:
            raise ValueError(f"{name} of {self.where} must be {expected}, got {short(self.config[name])}")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """Return a whole number of ``low .. high``.

        Args:
            name: The field.
            low: The smallest number that is accepted.
            high: The largest number that is accepted.
        """
        return self.get(name, lambda v: _integer(v, low, high), f"a whole number of {low}..{high}")

    def optional_integer(self, name: str, low: int, high: int) -> int | None:
        """Return a whole number of ``low .. high``, or None.

        Args:
            name: The field.
            low: The smallest number that is accepted.
            high: The largest number that is accepted.
        """
        return None if self.config[name] is None else self.integer(name, low, high)

    def flag(self, name: str) -> bool:
        """Return true or false.

        Args:
            name: The field.
        """
        return bool(self.get(name, lambda v: int(v) if isinstance(v, bool) else None, "true or false"))

    def text(self, name: str, most: int = 1000) -> str:
        """Return a text.

        Args:
            name: The field.
            most: The largest number of characters. Default: 1,000.
        """
        check = _text_of(most)
        return self.get(name, check, f"a text of at most {most} characters")

    def choice(self, name: str, options: tuple[str, ...]) -> str:
        """Return one of several texts.

        Args:
            name: The field.
            options: The texts that are accepted.
        """
        return self.get(name, lambda v: v if isinstance(v, str) and v in options else None, f"one of {options}")

    def items(self, name: str, check: Callable[[object], T | None], most: int, expected: str) -> tuple[T, ...]:
        """Return a list as a tuple of checked items.

        Args:
            name: The field.
            check: Returns the item to use, or None if the item is not valid.
            most: The largest number of items.
            expected: A valid item in words.
        """

        def all_of(value: object) -> tuple[T, ...] | None:
            if not isinstance(value, list | tuple) or len(value) > most:
                return None
            found = tuple(check(item) for item in value)
            return None if any(item is None for item in found) else found  # pyright: ignore[reportReturnType]

        return self.get(name, all_of, f"a list of at most {most:,} items, each {expected}")


def finite(value: object) -> float | None:
    """Return a finite JSON number as a float, None for everything else.

    Args:
        value: What JSON holds.

    >>> finite(3), finite("3"), finite(True)
    (3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def rows(value: object) -> int | None:
    """Return a number of rows, 0 .. 2**40, None for everything else.

    Args:
        value: What JSON holds.

    >>> rows(3), rows(-1)
    (3, None)
    """
    return _integer(value, 0, 2**40)


def scalar(value: object) -> Scalar | None:
    """Return a text, a finite number or a boolean, None for everything else.

    Args:
        value: What JSON holds.

    >>> scalar("a"), scalar([1])
    ('a', None)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool) else None


def list_of(check: Callable[[object], T | None], most: int) -> Callable[[object], tuple[T, ...] | None]:
    """Return a check for a list of 1 .. ``most`` items that each pass ``check``.

    Args:
        check: The check of one item.
        most: The largest number of items.

    >>> list_of(finite, 2)([1, 2]), list_of(finite, 2)([])
    ((1.0, 2.0), None)
    """

    def all_of(value: object) -> tuple[T, ...] | None:
        if not isinstance(value, list | tuple) or not 1 <= len(value) <= most:
            return None
        found = tuple(check(item) for item in value)
        return None if any(item is None for item in found) else found  # pyright: ignore[reportReturnType]

    return all_of


def short(value: object) -> str:
    """Return the representation of any value as one printable line of at most 60 characters.

    Args:
        value: The value.

    >>> short("a\\nb")
    "'a\\\\nb'"
    """
    if isinstance(value, np.datetime64):
        return one_line(str(value), most=60)
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple | dict) and len(value) > 20:
        return f"a {type(value).__name__} of {len(value)} items"
    return one_line(repr(value), most=60)


def _integer(value: object, low: int, high: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high else None


def _text_of(most: int) -> Callable[[object], str | None]:
    return lambda value: value if isinstance(value, str) and len(value) <= most else None


def as_config(type_: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object for JSON: the type and the fields, tuples as lists.

    Args:
        type_: The value of the field ``type``.
        fields: The other fields.

    >>> as_config("id", {"start": 1, "codes": (1, 2)})
    {'type': 'id', 'start': 1, 'codes': [1, 2]}
    """
    return {"type": type_} | {name: _as_list(value) for name, value in fields.items()}


def _as_list(value: Any) -> Any:
    return [_as_list(item) for item in value] if isinstance(value, list | tuple) else value
