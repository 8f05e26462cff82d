"""The best value of a cell given the probabilities of its states: the most probable category, a mean or a median."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tauleap.data.table.columns import precision
from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.number import NumberEncoder

Centre = Literal["mean", "median"]
_POSITIONS = (np.arange(64) + 0.5) / 64
"""Inside a state, over which its values are averaged."""


def best_values(column: Column, probs: np.ndarray, *, centre: Centre = "mean") -> np.ndarray:
    """Return the best value of each row: a mean or median of numbers, a median of dates, the mode of the rest.

    A state of missing values is left out: a prediction is a value.

    Args:
        column: The column.
        probs: Probabilities of its states, (rows, num_states).
        centre: For numbers: "mean" has the least squared error, "median" the least absolute error. Default: "mean".

    >>> encoder = NumberEncoder.fit(np.array([1.5, 2.0, 4.0]))
    >>> best_values(Column("x", encoder), np.array([[0.5, 0.0, 0.5], [0.2, 0.6, 0.2]]))
    array([2.8, 2.3])
    """
    encoder = column.encoder
    known = np.asarray(probs, dtype=np.float64)[:, : encoder.num_states]
    total = known.sum(1, keepdims=True)
    known = np.where(total > 0, known / np.where(total > 0, total, 1), 1 / encoder.num_states)
    if isinstance(encoder, NumberEncoder) and centre == "mean":
        return _means(encoder, known)
    if isinstance(encoder, NumberEncoder | DateEncoder):
        return _medians(encoder, known)
    return encoder.decode(known.argmax(1), np.random.default_rng(0))


def _means(encoder: NumberEncoder, probs: np.ndarray) -> np.ndarray:
    states = np.repeat(np.arange(encoder.num_states), len(_POSITIONS))
    values = encoder.decode(states, uniforms=np.tile(_POSITIONS, encoder.num_states)).astype(np.float64)
    centres = values.reshape(encoder.num_states, -1).mean(1)
    finite = np.isfinite(centres)
    weights = probs * finite
    total = weights.sum(1)
    mean = (weights @ np.where(finite, centres, 0.0)) / np.where(total > 0, total, 1)
    if encoder.integer and not any(encoder.infinite):
        return np.rint(mean).astype(np.int64)
    return precision.round_decimals(mean, encoder.decimals)


def _medians(encoder: NumberEncoder | DateEncoder, probs: np.ndarray) -> np.ndarray:
    cumulative = np.cumsum(probs, 1)
    states = np.minimum((cumulative < 0.5).sum(1), encoder.num_states - 1)
    rows = np.arange(len(probs))
    here = probs[rows, states]
    before = cumulative[rows, states] - here
    inside = np.clip((0.5 - before) / np.where(here > 0, here, 1), 0.0, 1 - 2.0**-53)
    return encoder.decode(states, uniforms=inside)


def state_labels(column: Column) -> list[Any]:
    """Return a label for each state: the category, the boolean, the value, or "low .. high" for a bin.

    Args:
        column: The column. A state of missing values is labelled None.
    """
    encoder = column.encoder
    states = np.arange(encoder.num_states)
    labels: list[Any] = []
    if isinstance(encoder, NumberEncoder | DateEncoder):
        low = encoder.decode(states, uniforms=np.zeros(len(states)))
        high = encoder.decode(states, uniforms=np.full(len(states), 1 - 2.0**-53))
        ends = [_shown(column, end) for end in (low, high)]
        labels = [a if a == b else f"{a} .. {b}" for a, b in zip(*ends, strict=True)]
    else:
        labels = encoder.decode(states, np.random.default_rng(0)).tolist()
    return [*labels, None] if column.missing_state else labels


def _shown(column: Column, values: np.ndarray) -> list[Any]:
    type_ = column.frame_type
    if type_ is not None and (type_.unit or type_.is_time):
        return column.texts(values, np.zeros(len(values), dtype=bool))
    # As Python objects, nanoseconds would be whole numbers.
    return list(values) if values.dtype == "M8[ns]" else values.tolist()
