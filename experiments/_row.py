"""A row of an experiment's table, or a point of its curves: a model, a sampler, and how often the network is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from tauleap.sampling import Sampler, uniform_grid


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
        return uniform_grid(max(1, round((self.evaluations - 1) / self.passes)), end=self.end)

    def at(self, evaluations: int) -> Row:
        """The same with another number of evaluations."""
        return replace(self, evaluations=evaluations)
