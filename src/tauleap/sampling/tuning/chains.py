"""Chains of links with the smallest total cost: the dynamic program of tuned grids and of tuned numbers of sites."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_STEPS = 100_000
"""Tolerances that need more steps are refused: each step is a network evaluation."""


class BestChains:
    """Find the cheapest chain from the first to the last of some points, for every number of links.

    A link leads from a point to any later one. The smallest cost of k links to j is the minimum over i < j of that of
    k - 1 links to i plus the cost of the link from i to j.

    Args:
        cost: The cost of a link from i to j > i, (points, points); other entries are ignored.

    >>> chains = BestChains(np.array([[0.0, 1.0, 4.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    >>> chains.total(1), chains.total(2), chains.points(2)
    (4.0, 2.0, [0, 1, 2])
    """

    def __init__(self, cost: np.ndarray) -> None:
        size = len(cost)
        self._cost = np.where(np.arange(size)[:, None] < np.arange(size), cost, np.inf)
        self._totals, self._before = [np.where(np.arange(size) == 0, 0.0, np.inf)], [np.zeros(size, dtype=np.int64)]

    @property
    def most(self) -> int:
        """The largest number of links."""
        return len(self._cost) - 1

    def total(self, links: int) -> float:
        """Return the smallest cost of a chain.

        Args:
            links: The number of links, from 1 to ``most``.
        """
        while len(self._totals) <= links:
            through = self._totals[-1][:, None] + self._cost
            before = through.argmin(0)
            self._totals.append(np.take_along_axis(through, before[None], 0)[0])
            self._before.append(before)
        return float(self._totals[links][-1])

    def points(self, links: int) -> list[int]:
        """Return the points of the cheapest chain, the first and the last included.

        Args:
            links: The number of links, from 1 to ``most``.
        """
        self.total(links)
        out = [self.most]
        for level in range(links, 0, -1):
            out.append(int(self._before[level][out[-1]]))
        return out[::-1]


def fewest_steps(error: Callable[[int], float], tol: float, most: int) -> int | None:
    """Return the smallest number of steps whose error is at most ``tol``; None if ``most`` are not enough.

    Args:
        error: Returns the error of a number of steps, which falls with it.
        tol: The tolerance.
        most: The largest number of steps.
    """
    high = 1
    while error(high) > tol:
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2  # whose error was too large, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= tol else (middle, high)
    return high
