"""Mean and covariance of features in batches, from n x F numbers, in memory of F x F numbers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from tauleap import _check, _device


class Moments:
    """Accumulate the number, mean and covariance of feature vectors in float64, batch by batch.

    Sums of squares are taken about the mean of each batch and joined by

        S = S_a + S_b + (m_a - m_b)(m_a - m_b)^T n_a n_b / (n_a + n_b),

    so that nothing cancels however far the features are from 0. 50,000 vectors of 2048 features are 800 MB in float64;
    their moments are 34 MB.

    Args:
        size: The number of features F, >= 1.

    >>> moments = Moments(1)
    >>> moments.update(torch.tensor([[1.0], [2.0]]))
    >>> moments.update(torch.tensor([[6.0]]))
    >>> moments.n, moments.mean.item(), moments.covariance.item()
    (3, 3.0, 7.0)
    """

    def __init__(self, size: int) -> None:
        size = _check.integer("size, the number of features,", size, least=1)
        self.n = 0
        self.mean = torch.zeros(size, dtype=torch.float64)
        self._squares = torch.zeros(size, size, dtype=torch.float64)

    @staticmethod
    def of(features: Tensor) -> Moments:
        """Return the moments of one batch.

        Args:
            features: The feature vectors, (n, F).
        """
        checked = check_features("features", features)
        moments = Moments(checked.shape[1])
        moments.update(checked)
        return moments

    @property
    def size(self) -> int:
        """The number of features F."""
        return len(self.mean)

    @property
    def covariance(self) -> Tensor:
        """The unbiased covariance (F, F), divided by n - 1."""
        if self.n < 2:
            raise ValueError(f"a covariance needs at least 2 feature vectors, got {self.n}")
        return self._squares / (self.n - 1)

    def update(self, features: Tensor) -> None:
        """Add a batch.

        Args:
            features: The feature vectors, (b, F).
        """
        exact = check_features("features", features)
        if exact.shape[1] != self.size:
            raise ValueError(f"features must be (b, {self.size}) as before, got {tuple(exact.shape)}")
        if len(exact) > 0:
            mean = exact.mean(0)
            centred = exact - mean
            self._join(len(exact), mean, centred.T @ centred)

    def merge(self, other: Moments) -> None:
        """Add the vectors of other moments, which are not changed.

        Args:
            other: The other moments, of the same size.
        """
        if not isinstance(other, Moments):
            raise TypeError(f"Moments are merged with Moments, got {type(other).__name__}")
        if other.size != self.size:
            raise ValueError(f"moments of {other.size} features do not merge with those of {self.size}")
        if other.n > 0:
            self._join(other.n, other.mean, other._squares)

    def _join(self, n: int, mean: Tensor, squares: Tensor) -> None:
        total = self.n + n
        apart = mean - self.mean
        self._squares = self._squares + squares + torch.outer(apart, apart) * (self.n * n / total)
        self.mean = self.mean + apart * (n / total)
        self.n = total

    def __repr__(self) -> str:
        return f"Moments(n={self.n}, size={self.size})"


def merged(parts: Iterable[Moments], size: int) -> Moments:
    """Return all parts together, as new moments."""
    whole = Moments(size)
    for part in parts:
        whole.merge(part)
    return whole


def grouped(batches: Iterable[Tensor], groups: int = 10) -> list[Moments]:
    """Return the moments of groups of a stream of batches: vector i is in group i mod ``groups``.

    :func:`tauleap.evaluate.frechet_distance` computes its standard error from such groups.

    Args:
        batches: Feature vectors (b, F), batch by batch.
        groups: The number of groups, >= 2. Default: 10.

    Returns:
        One ``Moments`` per group.

    >>> [part.n for part in grouped([torch.zeros(3, 1), torch.ones(2, 1)], groups=2)]
    [3, 2]
    """
    groups = _check.integer("groups", groups, least=2)
    made: list[Moments] = []
    seen = 0
    for batch in batches:
        exact = check_features("a batch of features", batch)
        made = made or [Moments(exact.shape[1]) for _ in range(groups)]
        for group, moments in enumerate(made):
            moments.update(exact[(group - seen) % groups :: groups])
        seen += len(exact)
    if seen < 2 * groups:
        raise ValueError(f"{groups} groups need at least {2 * groups} feature vectors, got {seen}")
    return made


def check_features(name: str, features: object) -> Tensor:
    """Return feature vectors (b, F) as finite float64 numbers on the CPU."""
    if not isinstance(features, Tensor):
        raise TypeError(f"{name} must be a tensor (n, F), got {type(features).__name__}")
    if not features.is_floating_point():
        raise TypeError(
            f"{name} must be floating-point numbers, got {features.dtype}: write {name.split()[-1]}.float()"
        )
    if features.ndim != 2 or features.shape[1] == 0:
        raise ValueError(f"{name} must be (n, F), one row per sample, got shape {tuple(features.shape)}")
    exact = _device.exact_on_cpu(features)
    if not bool(exact.isfinite().all()):
        raise ValueError(f"{name} must be finite, got nan or inf")
    return exact
