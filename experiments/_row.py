"""A row of an experiment's table, or a point of its curves: a model, a sampler, and how often the network is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from tauleap.sampling import Sampler, WithCorrector, uniform_grid


@dataclass(frozen=True)
class Row:
    """Samples of one model by one sampler, with about ``evaluations`` passes for each."""

    label: str
    model: str
    sampler: Sampler
    evaluations: int
    passes: float = 1.0
    """Of a step, on average."""
    end: float = 0.01
    final: Literal["mode", "sample"] = "mode"

    @property
    def grid(self) -> Tensor:
        """As many steps as the evaluations allow, one of which is for the end."""
        number = max(1, round((self.evaluations - 1) / self.passes))
        while number > 1 and self._cost(uniform_grid(number, end=self.end)) > 1.05 * self.evaluations:
            number -= 1
        return uniform_grid(number, end=self.end)

    def _cost(self, grid: Tensor) -> float:
        """Evaluations, with correctors counted at the times at which they run, which on a coarse grid are few."""
        if isinstance(self.sampler, WithCorrector):
            return len(grid) + self.sampler.steps * int((grid[1:] < self.sampler.start).sum())
        return 1 + self.passes * (len(grid) - 1)

    def at(self, evaluations: int) -> Row:
        """The same with another number of evaluations."""
        return replace(self, evaluations=evaluations)
