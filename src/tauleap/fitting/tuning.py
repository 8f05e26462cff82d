"""Tune a trained model at the end of training, at a small part of its cost."""

from __future__ import annotations

import torch

from tauleap.data import Dataset
from tauleap.evaluate import tune
from tauleap.model import Model

FRACTION = 0.03
"""The largest part of the cost of training, and of a budget in minutes, for tuning."""
_MOST_SECONDS = 30.0
_OF_A_STEP = 3
"""A training step costs about as much per row as this many network evaluations."""
_OF_A_ROW = 100
"""Tuning costs about as much per row: up to 41 network evaluations, and the rates at pairs of times."""
_FEWEST_ROWS, _MOST_ROWS = 32, 1024
_LARGEST_ERROR = 0.3
"""Tunings with a larger relative standard error are not used: their grids would follow the noise."""


def seconds_for_tuning(seconds: float) -> float:
    """Return the seconds of a budget that tuning may take at most.

    Args:
        seconds: The budget.

    >>> round(seconds_for_tuning(180.0), 3)
    5.4
    """
    return min(FRACTION * seconds, _MOST_SECONDS)


def tune_cheaply(model: Model, held_out: Dataset, trained_rows: int, seed: int, seconds: float = 1e6) -> bool:
    """Tune a model at a small part of the cost of its training, if that is accurate enough; return whether it is.

    The number of rows follows from the cost of training, so that it does not depend on the speed of the machine.

    Args:
        model: The trained model.
        held_out: Held-out rows.
        trained_rows: The number of rows of all training steps together.
        seed: The seed of the noise.
        seconds: The largest number of seconds. Default: no limit.
    """
    complete = torch.arange(len(held_out))
    if held_out.missing is not None:
        complete = complete[~held_out.missing.flatten(1).any(1)]
    number = min(_MOST_ROWS, len(complete), int(FRACTION * _OF_A_STEP * trained_rows / _OF_A_ROW))
    if number < _FEWEST_ROWS:
        return False
    rows = held_out.select(complete[:number])
    try:
        found = tune(
            model.reverse,
            rows.rows(torch.arange(number)),
            seconds=seconds,
            condition=rows.condition,
            generator=torch.Generator().manual_seed(seed),
        )
    except ValueError:  # a network that is sure of a wrong state has infinite errors
        return False
    if found.relative_stderr is None or found.relative_stderr > _LARGEST_ERROR:
        return False
    model.tuning = found
    return True
