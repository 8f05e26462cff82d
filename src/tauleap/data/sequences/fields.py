"""The fields of dataclasses as JSON values, for the kinds of files and of tokenisers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

_T = TypeVar("_T")


def to_fields(kind: str, instance: object) -> dict[str, Any]:
    """Return the kind and the fields of a dataclass; tuples become lists.

    Args:
        kind: The name of the class in a configuration.
        instance: An instance of a dataclass.
    """
    fields = dataclasses.fields(instance)  # pyright: ignore[reportArgumentType] (concrete ones are dataclasses)
    values = {field.name: getattr(instance, field.name) for field in fields}
    return {"kind": kind} | {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def from_fields(what: str, cls: type[_T], config: Mapping[str, Any]) -> _T:
    """Return an instance with the fields of a configuration.

    Args:
        what: The class in words, for the message.
        cls: The dataclass.
        config: A result of :func:`to_fields`.

    Raises:
        ValueError: The configuration has other fields than the class.
    """
    names = {field.name for field in dataclasses.fields(cls)}  # pyright: ignore[reportArgumentType]
    given = {name: value for name, value in config.items() if name != "kind"}
    if set(given) != names:
        raise ValueError(f"{what} must have the fields {', '.join(sorted(names))}")
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
