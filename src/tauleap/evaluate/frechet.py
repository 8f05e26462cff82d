"""The Frechet distance between two samples of features, each taken for a Gaussian.

For Gaussians N(m_1, C_1) and N(m_2, C_2) it is

    d = |m_1 - m_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^{1/2}),

the square of their Wasserstein-2 distance. This is *not* FID, whatever the features are: FID is this number for the
features of one particular Inception network with its own way of resizing, and papers compare it to the decimals. For
that see :func:`tauleap.evaluate.fidelity.fid_and_is`.

(C_1 C_2)^{1/2} is never made. Its trace is the sum of the singular values of C_1^{1/2} C_2^{1/2}, which are the square
roots of the eigenvalues of the symmetric C_1^{1/2} C_2 C_1^{1/2}. As singular values they keep the digits that a square
root of a small eigenvalue would lose, and singular covariances, of fewer samples than features, are nothing special.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.moments import Moments, check_features, grouped, merged


def frechet_distance(
    samples: Tensor | Moments | Sequence[Moments], reference: Tensor | Moments | Sequence[Moments], *, groups: int = 10
) -> Estimate[float]:
    """Return |m_1 - m_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^{1/2}) with unbiased covariances, and its standard error.

    The standard error is a jackknife over groups of each sample: with theta_g the distance without group g of one
    sample, that sample adds (G - 1)/G sum_g (theta_g - mean theta)^2 to the variance. It is itself known to about
    1/sqrt(2 (G - 1)) of its size, 24 % for ten groups. It does not include the bias of the distance: on average the
    value is too large by about a constant over n, because covariances of few samples differ more than those of their
    laws. So compare only distances of equal n. If both laws are equal, the value is this bias alone. Each group
    costs two decompositions of an F x F matrix: for 2048 features the error takes minutes, and the number alone, by
    :func:`frechet_of_moments`, a tenth of that.

    Args:
        samples: features (n, F); or groups of them, as :func:`grouped` makes of a stream that is too long for memory.
        reference: the same, or ``Moments``: a law that is taken as known, which adds no error.
        groups: the number of groups of a tensor; row i is in group i mod ``groups``. If kinds of rows come in turn,
            such as labels 0 to 9, give another number or order, so that each group is like the whole. Default: 10.

    Returns:
        The value, with its standard error.

    >>> generator = torch.Generator().manual_seed(0)
    >>> x, y = (torch.randn(500, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    >>> print(frechet_distance(x + 1, y))  # that of the laws is 3
    3.22 +- 0.19 (n = 500)
    """
    one, other = _side("samples", samples, groups), _side("reference", reference, groups)
    if not one.groups and not other.groups:
        raise ValueError(
            "a standard error needs lists of Moments, one per group, got two single Moments: write "
            "frechet_of_moments(a, b) for a distance without a standard error"
        )
    if one.whole.size != other.whole.size:
        raise ValueError(
            f"samples have {one.whole.size} features and the reference has {other.whole.size}: extract both with the "
            "same network"
        )
    a, b = _Gaussian.of(one.whole), _Gaussian.of(other.whole)
    variance = _jackknife([_between(_Gaussian.of(rest), b) for rest in one.without_each()])
    variance += _jackknife([_between(a, _Gaussian.of(rest)) for rest in other.without_each()])
    return Estimate(_between(a, b), math.sqrt(variance), one.whole.n)


def frechet_of_moments(a: Moments, b: Moments) -> float:
    """Return the Frechet distance of two samples from their moments, without a standard error.

    Args:
        a: The moments of one sample.
        b: The moments of the other sample.

    Returns:
        The value |m_1 - m_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^{1/2}).

    >>> x = torch.tensor([[0.0], [2.0]])
    >>> frechet_of_moments(Moments.of(x), Moments.of(3 * x + 1))  # (1 - 4)^2 + (3 - 1)^2 * 2
    17.0...
    """
    return frechet_of_gaussians(a.mean, a.covariance, b.mean, b.covariance)


def frechet_of_gaussians(mean_1: Tensor, covariance_1: Tensor, mean_2: Tensor, covariance_2: Tensor) -> float:
    """Return the Frechet distance of the Gaussians N(m_1, C_1) and N(m_2, C_2).

    Args:
        mean_1: m_1, (F,).
        covariance_1: C_1, (F, F), symmetric and positive semidefinite.
        mean_2: m_2, (F,).
        covariance_2: C_2, (F, F), symmetric and positive semidefinite.

    Returns:
        The value |m_1 - m_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^{1/2}).

    >>> frechet_of_gaussians(torch.zeros(2), torch.eye(2), torch.ones(2), 4 * torch.eye(2))  # 2 + 2 (1 - 2)^2
    4.0...
    """
    a, b = _Gaussian.checked(mean_1, covariance_1), _Gaussian.checked(mean_2, covariance_2)
    if len(a.mean) != len(b.mean):
        raise ValueError(f"two Gaussians must have the same dimension, got {len(a.mean)} and {len(b.mean)}")
    return _between(a, b)


@dataclass(frozen=True)
class _Gaussian:
    """Hold m, tr C, and a factor A with A A^T = C."""

    mean: Tensor
    trace: float
    factor: Tensor

    @staticmethod
    def of(moments: Moments) -> _Gaussian:
        return _Gaussian._make(moments.mean, moments.covariance)

    @staticmethod
    def checked(mean: Tensor, covariance: Tensor) -> _Gaussian:
        size = len(mean) if mean.ndim == 1 else -1
        if size < 1 or covariance.shape != (size, size):
            raise ValueError(
                f"a Gaussian is a mean (F,) and a covariance (F, F), got {tuple(mean.shape)} and "
                f"{tuple(covariance.shape)}"
            )
        mean, covariance = check_features("a mean", mean[None])[0], check_features("a covariance", covariance)
        if not torch.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-6 * float(covariance.abs().max())):
            raise ValueError("a covariance must be symmetric: write (c + c.T) / 2")
        return _Gaussian._make(mean, covariance)

    @staticmethod
    def _make(mean: Tensor, covariance: Tensor) -> _Gaussian:
        values, vectors = torch.linalg.eigh((covariance + covariance.T) / 2)
        largest = float(values.abs().max())
        if float(values[0]) < -1e-6 * largest:
            raise ValueError(
                f"a covariance must not have negative eigenvalues, got {float(values[0]):g}: "
                "write Moments.of(x).covariance"
            )
        # Eigenvalues below the rounding error of the largest count as 0: their square roots would be far above it.
        values = torch.where(values > len(values) * torch.finfo(values.dtype).eps * largest, values, 0.0)
        return _Gaussian(mean, float(covariance.trace()), vectors * values.sqrt())


def _between(a: _Gaussian, b: _Gaussian) -> float:
    # A Q and A are as good a factor of C for any rotation Q, and singular values do not see rotations.
    shared = float(torch.linalg.svdvals(a.factor.T @ b.factor).sum())
    apart = float(((a.mean - b.mean) ** 2).sum())
    # Equal covariances cancel but for rounding, which may leave less than nothing.
    return apart + max(0.0, a.trace + b.trace - 2 * shared)


@dataclass(frozen=True)
class _Side:
    """Hold the moments of a sample and those of its groups; no groups for a known law."""

    whole: Moments
    groups: Sequence[Moments]

    def without_each(self) -> list[Moments]:
        return [
            merged((part for place, part in enumerate(self.groups) if place != left), self.whole.size)
            for left in range(len(self.groups))
        ]


def _side(name: str, given: object, groups: int) -> _Side:
    if isinstance(given, Moments):
        return _Side(given, [])
    if isinstance(given, Tensor):
        parts = grouped([check_features(name, given)], groups)
    elif isinstance(given, Sequence) and given and all(isinstance(part, Moments) for part in given):
        parts = list(given)
    else:
        raise TypeError(f"{name} must be features (n, F), Moments, or a list of Moments, got {type(given).__name__}")
    if len(parts) < 2 or any(part.n < 2 for part in parts):
        raise ValueError(f"{name} must have two or more groups of two or more samples: see tauleap.evaluate.grouped")
    return _Side(merged(parts, parts[0].size), parts)


def _jackknife(values: list[float]) -> float:
    """Return the jackknife variance from the values without one group each."""
    if not values:
        return 0.0
    mean = sum(values) / len(values)
    return (len(values) - 1) / len(values) * sum((value - mean) ** 2 for value in values)
