"""Conditions on columns: a value, a list of values or a range, as the states and values that they allow.

A column with a condition decodes to allowed values only, and one with fixed values to these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from tauleap._files.printable import one_line
from tauleap.data.table.columns.category import CategoryEncoder
from tauleap.data.table.columns.cells import Cells, objects
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.fields import short
from tauleap.data.table.columns.number import NumberEncoder

if TYPE_CHECKING:
    from tauleap.data.table.columns.column import Column

_HALVINGS = 50
"""Of [0, 1), for the ends of a range inside a bin: more do not change a float64."""
_NAMED = 10
"""Categories that a message names."""


class AllowedValues(ABC):
    """Decode states to some of their values."""

    @abstractmethod
    def decode(self, encoder: Any, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Return one allowed value per state.

        Args:
            encoder: The encoder of the column.
            states: Allowed states.
            rng: The source of randomness. Default: a new one without a seed.
        """


@dataclass(frozen=True, eq=False)
class FixedValues(AllowedValues):
    """Decode to given values, one per row, and ignore the states.

    Args:
        values: The values in the type of the encoder.
    """

    values: np.ndarray

    def decode(self, encoder: Any, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        if len(states) != len(self.values):
            raise ValueError(
                f"the condition fixes {len(self.values)} values, one per row, but there are "
                f"{len(states)} rows: draw {len(self.values)} rows"
            )
        return self.values


@dataclass(frozen=True, eq=False)
class Condition(AllowedValues):
    """Hold what a condition allows of a column.

    Args:
        text: The condition, for messages.
        weights: For each state of the column the fraction of its values that are allowed, 0 to 1.
        low: For each state the position of its first allowed value in [0, 1), as ``decode`` takes positions.
        high: For each state the position of its last allowed value.
        value: The one value that is allowed, as an array of one; None if there are several.
    """

    text: str
    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray
    value: np.ndarray | None = None

    @property
    def state(self) -> int | None:
        """The one state that is allowed; None if there are several."""
        states = np.flatnonzero(self.weights)
        return int(states[0]) if len(states) == 1 else None

    def decode(self, encoder: Any, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        if self.value is not None:
            return np.repeat(self.value, len(states))
        if not isinstance(encoder, NumberEncoder | DateEncoder):
            return encoder.decode(states, rng)
        low, high = self.low[states], self.high[states]
        draws = (np.random.default_rng() if rng is None else rng).random(len(states))
        return encoder.decode(states, uniforms=low + draws * (high - low))


def conditions_of(columns: Mapping[str, Column], given: Mapping[str, Any]) -> dict[str, Condition]:
    """Return the conditions by the names of their columns.

    Args:
        columns: All columns of the table by their names.
        given: For each condition the name of a column and a value, a list of values, a range ``(low, high)`` of numbers
            or dates whose ends are included (None: no end), or None for a missing value.

    Raises:
        ValueError: Conditions that the model cannot fulfil; all of them are named.
    """
    found: dict[str, Condition] = {}
    problems: list[str] = []
    for name, value in given.items():
        try:
            if name not in columns:
                raise ValueError(f"there is no such column: write one of {one_line(', '.join(columns), most=300)}")
            found[name] = _condition(columns[name], value)
        except ValueError as error:
            problems.append(f"given {short(str(name))}: {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return found


def parse_condition(column: Column, text: str) -> Any:
    """Return a condition that was written as text: ``30:40``, ``30:``, ``2024-01-01..2024-06-30``, ``a|b`` or a value.

    Args:
        column: The column.
        text: The text after the equals sign; empty for a missing value.
    """
    if not text:
        return None
    mark = {NumberEncoder: ":", DateEncoder: ".."}.get(type(column.encoder))
    if mark is not None and mark in text:
        low, _, high = text.partition(mark)
        return (low.strip() or None, high.strip() or None)
    if isinstance(column.encoder, CategoryEncoder) and "|" in text and _states(column, [text])[1].any():
        return [part.strip() for part in text.split("|")]
    return text


def _condition(column: Column, value: Any) -> Condition:
    if not column.modelled:
        raise ValueError(f"the column is not modelled ({column.encoder.type}), so no sample can be conditioned on it")
    if isinstance(value, tuple):
        return _range(column, value)
    if isinstance(value, list):
        return _values(column, value)
    weights = np.zeros(column.num_states)
    zeros = np.zeros(column.num_states)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        if not column.missing_state:
            raise ValueError(
                "missing values are not modelled: to model those of the training rows, fit with model_missing=True "
                "(--model-missing)"
            )
        weights[-1] = 1.0
        return Condition("missing", weights, zeros, zeros + 1)
    states, values = _known(column, [value])
    weights[states[0]] = 1.0
    return Condition(one_line(str(value)), weights, zeros, zeros + 1, values[:1])


def _values(column: Column, values: list[Any]) -> Condition:
    if not values:
        raise ValueError("the list of values is empty: write one value or more")
    if isinstance(column.encoder, NumberEncoder | DateEncoder):
        raise ValueError("numbers and dates take a value or a range (low, high), not a list: write a tuple")
    states, _ = _known(column, values)
    weights, zeros = np.zeros(column.num_states), np.zeros(column.num_states)
    weights[states] = 1.0
    return Condition(one_line(" | ".join(map(str, values))), weights, zeros, zeros + 1)


def _range(column: Column, ends: tuple[Any, ...]) -> Condition:
    encoder = column.encoder
    if not isinstance(encoder, NumberEncoder | DateEncoder):
        raise ValueError(f"a range is for numbers and dates, and this is a {encoder.type}: write a value or a list")
    if len(ends) != 2:
        raise ValueError(f"a range has two ends, (low, high), got {len(ends)}")
    values: list[Any] = []
    for end in ends:
        converted, readable = column.convert(_cells(end)) if end is not None else (np.array([None]), np.array([True]))
        if not readable[0]:
            raise ValueError(f"{short(str(end))} is not a {encoder.type}")
        values.append(None if end is None else converted[0])
    low, high = values
    text = f"{'' if ends[0] is None else ends[0]}:{'' if ends[1] is None else ends[1]}"
    if low is not None and high is not None and low > high:
        raise ValueError(f"the range {short(text)} is empty: its first end must be the smaller one")
    states = np.arange(encoder.num_states)
    # Decoded values ascend with the position inside a state, so that two searches find the allowed positions.
    first = _search(encoder, states, lambda value: np.ones(len(value), bool) if low is None else value >= low)
    after = _search(encoder, states, lambda value: np.zeros(len(value), bool) if high is None else value > high)
    weights = np.clip(after - first, 0.0, 1.0)
    if not weights.any():
        shown = encoder.decode(np.array([0, encoder.num_states - 1]), uniforms=np.array([0.0, 1 - 2.0**-53]))
        raise ValueError(f"no training value is in {short(text)}: they are from {shown[0]} to {shown[1]}")
    more = np.zeros(column.num_states - encoder.num_states)
    return Condition(text, np.append(weights, more), np.append(first, more), np.append(after, more))


def _search(encoder: NumberEncoder | DateEncoder, states: np.ndarray, reached: Any) -> np.ndarray:
    """Return the first position inside each state from which ``reached(value)`` holds; 1 if it never does."""

    def holds(position: np.ndarray) -> np.ndarray:
        return reached(encoder.decode(states, uniforms=np.minimum(position, 1 - 2.0**-53)))

    low, high = np.zeros(len(states)), np.ones(len(states))
    always, never = holds(low), ~holds(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        at_middle = holds(middle)
        low, high = np.where(at_middle, low, middle), np.where(at_middle, middle, high)
    return np.where(always, 0.0, np.where(never, 1.0, high))


def _known(column: Column, values: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return states and converted values; raise if one of them is not a value of the column."""
    states, unknown, converted = _states(column, values)
    encoder = column.encoder
    for place in np.flatnonzero(unknown).tolist():
        given = short(str(values[place]))
        if isinstance(encoder, CategoryEncoder):
            shown = ", ".join(map(str, encoder.categories[:_NAMED]))
            more = f" and {len(encoder.categories) - _NAMED} more" if len(encoder.categories) > _NAMED else ""
            raise ValueError(f"{given} is not one of its categories: write {one_line(shown, most=300)}{more}")
        raise ValueError(f"{given} is not a {encoder.type}")
    if isinstance(encoder, NumberEncoder | DateEncoder):
        ends = encoder.decode(np.array([0, encoder.num_states - 1]), uniforms=np.array([0.0, 1 - 2.0**-53]))
        if converted[0] < ends[0] or converted[0] > ends[1]:
            raise ValueError(
                f"{short(str(values[0]))} is outside the training values, which are from {ends[0]} to {ends[1]}"
            )
    return states, converted


def _states(column: Column, values: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    states, unknown, converted = [], [], []
    for value in values:
        own, readable = column.convert(_cells(value))
        state, missing = column.encoder.encode(own)
        states.append(int(state[0]))
        unknown.append(bool(missing[0]) or not bool(readable[0]))
        converted.append(column.values_of(_cells(value)))
    every = [value for each in converted if each is not None for value in each.tolist()]
    if isinstance(column.encoder, DateEncoder | NumberEncoder):
        return np.array(states), np.array(unknown), converted[0] if converted[0] is not None else objects(values)
    return np.array(states), np.array(unknown), objects(every)


def _cells(value: Any) -> Cells:
    """Return one value as the cells of a column."""
    if isinstance(value, str):
        return Cells.from_texts([value], missing=())
    codes = np.zeros(1, dtype=np.int32)
    if isinstance(value, bool | np.bool_):
        return Cells("boolean", np.array([bool(value)]), codes)
    if isinstance(value, np.timedelta64 | timedelta):
        return Cells("number", np.array([value], dtype="timedelta64[ns]").astype(np.int64), codes, unit="ns")
    if isinstance(value, time):
        value = datetime.combine(date(1970, 1, 1), value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        moment = value.astimezone(UTC).replace(tzinfo=None)
        return Cells("date", np.array([moment], dtype="datetime64[us]"), codes, is_utc=True)
    if isinstance(value, np.datetime64 | date):
        return Cells("date", np.array([value], dtype="datetime64[us]"), codes)
    if isinstance(value, int | float | np.number):
        return Cells("number", np.array([value]), codes)
    return Cells("object", objects([value]), codes)
