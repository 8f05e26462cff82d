"""Grids: the decreasing times at which a sampler stops. Any decreasing sequence of times will do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from numbers import Real

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check
from tauleap.noise import Schedule

Grid = Float[Tensor, "times"]


def uniform_grid(steps: int, start: float = 1.0, end: float = 0.01) -> Grid:
    """Return a grid of steps of equal length in t, as in the paper; the last time is exactly ``end``.

    Args:
        steps: The number of steps, >= 1.
        start: The first time, in (0, 1]. Default: 1.
        end: The last time, >= 0, below ``start``. Default: 0.01.

    Returns:
        ``steps + 1`` decreasing times in float64.

    Raises:
        ValueError: The times are not in range.

    >>> uniform_grid(3)
    tensor([1.0000, 0.6700, 0.3400, 0.0100], dtype=torch.float64)
    """
    steps = _checked(steps, start, end)
    return _between(torch.linspace(start, end, steps + 1, dtype=torch.float64), start, end)


def geometric_grid(steps: int, start: float = 1.0, end: float = 0.01) -> Grid:
    """Return a grid whose times fall by a constant factor: fine near the data, where the rates are large.

    Args:
        steps: The number of steps, >= 1.
        start: The first time, in (0, 1]. Default: 1.
        end: The last time, > 0, below ``start``. Default: 0.01.

    Returns:
        ``steps + 1`` decreasing times in float64.

    Raises:
        ValueError: The times are not in range.

    >>> geometric_grid(2)
    tensor([1.0000, 0.1000, 0.0100], dtype=torch.float64)
    """
    steps = _checked(steps, start, end)
    if end == 0:
        raise ValueError("a geometric grid never reaches 0: write end=0.01, or use uniform_grid")
    powers = torch.linspace(0.0, 1.0, steps + 1, dtype=torch.float64)
    return _between(start * (end / start) ** powers, start, end)


def noise_grid(schedule: Schedule, steps: int, start: float = 1.0, end: float = 0.01) -> Grid:
    """Return a grid whose steps have equal amounts of noise: uniform in c(t).

    Args:
        schedule: The schedule of the process.
        steps: The number of steps, >= 1.
        start: The first time, in (0, 1]. Default: 1.
        end: The last time, >= 0, below ``start``. Default: 0.01.

    Returns:
        ``steps + 1`` decreasing times in float64.

    Raises:
        ValueError: The times are not in range.

    >>> from tauleap.noise import Exponential
    >>> noise_grid(Exponential(1.0, 4.0), 3, end=0.0)
    tensor([1.0000, 0.7925, 0.5000, 0.0000], dtype=torch.float64)
    """
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}: write process.schedule")
    steps = _checked(steps, start, end)
    ends = float(schedule.total(start)), float(schedule.total(end))
    return _between(schedule.inverse_total(torch.linspace(*ends, steps + 1, dtype=torch.float64)), start, end)


def check_grid(grid: object) -> list[float]:
    """Return the times as numbers; raise unless they are a decreasing sequence of at least two."""
    if isinstance(grid, Real):
        raise TypeError(f"grid must hold the times, not their number: write grid=uniform_grid({grid})")
    if isinstance(grid, Tensor):
        if grid.ndim != 1:
            raise ValueError(f"grid must have one axis, got shape {tuple(grid.shape)}")
        grid = grid.tolist()
    if not isinstance(grid, Iterable) or isinstance(grid, str):
        raise TypeError(f"grid must be a decreasing sequence of times such as uniform_grid(100), got {grid!r}")
    times = list(grid)
    if any(isinstance(t, bool) or not isinstance(t, Real) for t in times):
        raise TypeError(f"grid must hold numbers, got {times!r}")
    times = [float(t) for t in times]
    if len(times) < 2:
        raise ValueError(f"grid must hold at least two times, the first and the last, got {times}")
    if not all(0 <= t <= 1 for t in times):
        wrong = next(t for t in times if not 0 <= t <= 1)
        raise ValueError(f"the times of grid must lie in [0, 1], got {wrong}")
    for number, (t, s) in enumerate(pairwise(times)):
        if not s < t:
            hint = ": write grid.flip(0)" if all(a < b for a, b in pairwise(times)) else ""
            raise ValueError(f"grid must decrease, but time {number + 1}, {s}, does not lie below {t}{hint}")
    return times


def _checked(steps: int, start: float, end: float) -> int:
    steps = _check.integer("steps", steps, least=1)
    if any(isinstance(time, bool) or not isinstance(time, Real) for time in (start, end)):
        raise TypeError(f"start and end of a grid must be times, numbers in [0, 1], got {start!r} and {end!r}")
    if not 0 <= end < start <= 1:
        raise ValueError(f"a grid leads from start to an earlier end, both in [0, 1], got {start!r} and {end!r}")
    return steps


def _between(times: Tensor, start: float, end: float) -> Tensor:
    """Set the ends exactly to the given times."""
    times[0], times[-1] = start, end
    return times
