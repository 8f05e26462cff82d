"""Shortest paths with a given number of links, by dynamic programming.

Tuning selects with them the times of a grid, or how many sites each step unmasks: the points are times or numbers of
sites, a link is a sampling step, and its cost is the step's predicted error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_STEPS = 100_000
"""Tolerances that need more steps are refused: each step is a network evaluation."""


class BestChains:
    """Find the cheapest chain from the first to the last of some points, for every number of links.

    A link leads from a point to any later one. With C_k(j) the smallest cost of k links from the first point to j,

        C_k(j) = min over i < j of C_(k-1)(i) + cost(i, j)

    Args:
        cost: The cost of a link from i to j > i, (points, points); other entries are ignored.

    >>> chains = BestChains(np.array([[0.0, 1.0, 4.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    >>> chains.total(1), chains.total(2), chains.points(2)
    (4.0, 2.0, [0, 1, 2])
    """

    def __init__(self, cost: np.ndarray) -> None:
        size = len(cost)
        self._cost = np.where(np.arange(size)[:, None] < np.arange(size), cost, np.inf)
        # Per number of links and point: the smallest cost, and the previous point of the chain with this cost.
        self._totals, self._previous = [np.where(np.arange(size) == 0, 0.0, np.inf)], [np.zeros(size, dtype=np.int64)]

    @property
    def most(self) -> int:
        """The largest number of links."""
        return len(self._cost) - 1

    def total(self, links: int) -> float:
        """Return the smallest cost of a chain with this number of links.

        Args:
            links: The number of links, from 1 to ``most``.
        """
        while len(self._totals) <= links:
            costs = self._totals[-1][:, None] + self._cost  # of the chains to j whose previous point is i, (i, j)
            previous = costs.argmin(0)
            self._totals.append(np.take_along_axis(costs, previous[None], 0)[0])
            self._previous.append(previous)
        return float(self._totals[links][-1])

    def points(self, links: int) -> list[int]:
        """Return the points of the cheapest chain, the first and the last included.

        Args:
            links: The number of links, from 1 to ``most``.
        """
        self.total(links)
        out = [self.most]
        for level in range(links, 0, -1):
            out.append(int(self._previous[level][out[-1]]))
        return out[::-1]


def fewest_steps(error: Callable[[int], float], tol: float, most: int) -> int | None:
    """Return the smallest number of steps whose error is at most ``tol``; None if ``most`` are not enough.

    Args:
        error: Returns the error of a number of steps; more steps must not have a larger error.
        tol: The tolerance.
        most: The largest number of steps that is accepted.
    """
    high = 1
    while error(high) > tol:
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2  # 0, or a number of steps whose error was too large
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= tol else (middle, high)
    return high
