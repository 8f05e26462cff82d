"""Tuned times of ancestral steps, for any noise.

A step from t to s predicts each site from the states of the others at t. Its error is the integral over u in (s, t) of
D(t, u), the divergence between the reverse rates at x_u and those from the context at t, as in
``evaluate.forward_path``. D(u, u) = 0, and the context changes between u and t with a probability of order t - u, so
that

    D(t, u) = int_u^t g(u, v) dv,        e(s, t) = int int_{s < u < v < t} g(u, v) du dv

with a density g >= 0: the error of a short step is g h^2 / 2, of second order in its length h. So N steps of lengths
h = 1 / (N rho(t)), with int rho = 1, have the error (1 / 2N) int g / rho, which is smallest where rho is proportional
to sqrt(g): the best grid has equal parts of the integral of sqrt(g), and the error (int sqrt(g))^2 / 2N.

The density is known as its integrals over the cells between some times. Within a cell it is taken as constant in
sqrt(t), in which the integrand is smooth towards the data. This gives e(s, t) for all s and t, also for long steps, for
which the diagonal g(t, t) alone would not do. Few steps follow from e by dynamic programming, many from the diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tauleap import _check
from tauleap.noise import ForwardProcess
from tauleap.sampling.tuning.base import Tuning, head, numbers, only_fields
from tauleap.sampling.tuning.chains import MOST_STEPS, BestChains, fewest_steps

_MESH = 256
"""Points from which the dynamic program selects times."""
_FEW = 64
"""Up to this number of steps the dynamic program is used: beyond, its mesh has fewer than four points per step."""
_MOST_TIMES = 1000


@dataclass(frozen=True)
class TimeTuning(Tuning):
    """Hold the errors of ancestral steps between some times, as ``tauleap.tune`` measures them.

    Args:
        rows: The number of rows of the estimate.
        relative_stderr: The standard error of predicted errors, divided by the error.
        times: Increasing times from 0 to 1.
        errors: For each time but the last, the errors of the steps that reach it from each of the later times.

    >>> tuning = TimeTuning(100, 0.1, (0.0, 0.25, 1.0), ((0.1, 0.6), (0.3,)))
    >>> tuning.grid(2), round(tuning.error(2), 4)
    ((1.0, 0.4461822509765625, 0.0), 0.3333)
    >>> tuning.steps(tol=0.05)
    15
    """

    times: tuple[float, ...]
    errors: tuple[tuple[float, ...], ...]
    kind: ClassVar[str] = "times"

    def __post_init__(self) -> None:
        self._check_head()
        count = len(self.times)
        if not 2 <= count <= _MOST_TIMES or self.times[0] != 0 or self.times[-1] != 1:
            raise ValueError(f"times must be 2 to {_MOST_TIMES} numbers from 0 to 1, got {self.times}")
        if any(a >= b for a, b in zip(self.times, self.times[1:], strict=False)):
            raise ValueError(f"times must increase, got {self.times}")
        if [len(row) for row in self.errors] != list(range(count - 1, 0, -1)):
            raise ValueError("errors must have a row per time but the last, with an error per later time")
        if any(error < 0 for row in self.errors for error in row):
            raise ValueError("errors must be >= 0")

    def grid(self, steps: int) -> tuple[float, ...]:
        """Return the decreasing times of the best steps, from 1 to 0.

        Args:
            steps: The number of steps, >= 1.
        """
        steps = _check.integer("steps", steps, least=1)
        table = _table(self.times, self.errors)
        return tuple(table.time(table.places(steps))[::-1].tolist())

    def error_of(self, grid: tuple[float, ...]) -> float:
        """Return the predicted error of any grid, in nats per row.

        Args:
            grid: Decreasing times; if the last is not 0, the error of drawing the sample there is included.
        """
        table = _table(self.times, self.errors)
        places = table.place(np.array([*grid, 0.0] if grid[-1] > 0 else grid)[::-1])
        return float(table.error(places[:-1], places[1:]).sum())

    def error(self, steps: int, sites: int | None = None) -> float:
        table = _table(self.times, self.errors)
        places = table.places(_check.integer("steps", steps, least=1))
        return float(table.error(places[:-1], places[1:]).sum())

    def steps(self, tol: float, sites: int | None = None) -> int:
        tol = _check.positive("tol", tol)
        found = fewest_steps(self.error, tol, MOST_STEPS)
        if found is None:
            raise ValueError(f"tol={tol:g} needs more than {MOST_STEPS:,} steps: write a larger tol")
        return found

    def fit_problem(self, process: ForwardProcess, sites: int | None) -> str | None:
        return None if process.mask is None else "it has times, and absorbing noise needs numbers of sites"

    def config(self) -> dict[str, Any]:
        return self._head() | {"times": list(self.times), "errors": [list(row) for row in self.errors]}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TimeTuning:
        """Return the tuning of a configuration.

        Args:
            config: The result of :meth:`config`.

        Raises:
            ValueError: It is something else.
        """
        only_fields(config, {"kind", "rows", "relative_stderr", "times", "errors"})
        if not isinstance(config["errors"], list):
            raise ValueError(f"errors must be a list of lists, got {type(config['errors']).__name__}")
        errors = tuple(numbers("errors", row) for row in config["errors"])
        return cls(*head(config), numbers("times", config["times"]), errors)


class _Table:
    """Compute errors of steps between any two times. A place is a time in units of the cells between the knots."""

    def __init__(self, times: tuple[float, ...], errors: tuple[tuple[float, ...], ...]) -> None:
        self.roots, self.cells = np.sqrt(np.array(times)), len(times) - 1
        self.between = np.zeros((len(times), len(times)))  # the error of a step from knot j to knot i
        for i, row in enumerate(errors):
            self.between[i, i + 1 :] = row
        self.own = np.diagonal(self.between, 1)
        per_cell = max(1, -(-_MESH // self.cells))
        self.mesh = np.arange(self.cells * per_cell + 1) / per_cell
        self.chains = BestChains(self.error(self.mesh[:, None], self.mesh))
        root = np.sqrt(self.own)
        root = root if root.sum() > 0 else np.diff(self.roots)
        self.parts = np.concatenate([[0.0], root.cumsum() / root.sum()])

    def time(self, places: np.ndarray) -> np.ndarray:
        return np.interp(places, np.arange(self.cells + 1), self.roots) ** 2

    def place(self, times: np.ndarray) -> np.ndarray:
        return np.interp(np.sqrt(times), self.roots, np.arange(self.cells + 1))

    def places(self, steps: int) -> np.ndarray:
        """Return the places of the best steps, in increasing order."""
        if steps <= min(_FEW, self.chains.most // 4):
            return self.mesh[self.chains.points(steps)]
        return np.interp(np.linspace(0, 1, steps + 1), self.parts, np.arange(self.cells + 1))

    def error(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return e(s, t) between places: the integral of a density that is constant in each pair of cells."""
        low, high = np.broadcast_arrays(low, high)
        i, j = (np.minimum(place.astype(np.int64), self.cells - 1) for place in (low, high))
        late_i, early_j = 1 - (low - i), high - j  # the parts of the two cells that belong to the step
        e = self.between
        inside, left, right = e[i + 1, j], e[i, j] - e[i + 1, j] - self.own[i], e[i + 1, j + 1] - e[i + 1, j]
        right = right - self.own[j]
        both = e[i, j + 1] - e[i, j] - e[i + 1, j + 1] + e[i + 1, j]
        apart = inside + late_i * (left + late_i * self.own[i]) + early_j * (right + early_j * self.own[j])
        apart = apart + late_i * early_j * both
        return np.maximum(0.0, np.where(i == j, (high - low) ** 2 * self.own[i], apart))


@lru_cache(maxsize=32)
def _table(times: tuple[float, ...], errors: tuple[tuple[float, ...], ...]) -> _Table:
    return _Table(times, errors)
