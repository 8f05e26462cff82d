"""Find the finest grid for a number of network evaluations."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from tauleap.sampling import Sampler, WithCorrector


def grid_within(sampler: Sampler, grid: Callable[[int], Tensor], budget: int) -> Tensor:
    """Return the finest grid that needs at most ``budget`` evaluations, including the final step."""
    for steps in range(budget - 1, 0, -1):
        times = grid(steps)
        correctors = int((times[1:] < sampler.start).sum()) * sampler.steps if isinstance(sampler, WithCorrector) else 0
        if steps * (2 if sampler.order == 2 else 1) + correctors + 1 <= budget:
            return times
    raise ValueError(f"{budget} evaluations are too few for one step of {sampler}")
