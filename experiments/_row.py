"""One row of a results table: a model, a sampler, and the number of network evaluations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from tauleap.sampling import Sampler, WithCorrector, uniform_grid


@dataclass(frozen=True)
class Row:
    """Samples of one model by one sampler, with about ``evaluations`` network evaluations per sample."""

    label: str
    model: str
    sampler: Sampler
    evaluations: int
    passes: float = 1.0
    """The mean number of network evaluations per step."""
    end: float = 0.01
    final: Literal["mode", "sample"] = "mode"

    lattice: int | None = None
    """All times are multiples of 1 / lattice, those that a model in discrete time was trained for."""
    conditional: bool = field(default=False, repr=False)
    """Whether samples are class-conditional, all labels equally often."""

    guidance: float = field(default=1.0, repr=False)
    """The scale of ``tauleap.denoise.Guided``, with two network evaluations."""

    over: float = field(default=0.01, repr=False)
    """The fraction by which the evaluations may be exceeded."""

    @property
    def grid(self) -> Tensor:
        """The grid with as many steps as the evaluations allow, up to the fraction ``over``; one is for x0."""
        number = max(1, round((self.evaluations - 1) / self.passes))
        while self._cost(number + 1) <= self.evaluations:
            number += 1
        while number > 1 and self._cost(number) > (1 + self.over) * self.evaluations:
            number -= 1
        grid = uniform_grid(number, end=self.end)
        return grid if self.lattice is None else (self.lattice * grid).round() / self.lattice

    def _cost(self, steps: int) -> float:
        """Return the number of evaluations, with correctors counted only at the times at which they run."""
        per_call = 1 if self.guidance == 1 else 2
        if isinstance(self.sampler, WithCorrector):
            below = int((uniform_grid(steps, end=self.end)[1:] < self.sampler.start).sum())
            return per_call * (1 + steps + self.sampler.steps * below)
        return per_call * (1 + self.passes * steps)

    def at(self, evaluations: int) -> Row:
        """Return the same row with another number of evaluations."""
        return replace(self, evaluations=evaluations)
