"""A number with its error."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from statistics import NormalDist
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device

_MANY_DEGREES = 100
"""Degrees of freedom from which the expansion around the normal distribution has six digits."""
Value = TypeVar("Value", float, Tensor)


@dataclass(frozen=True)
class Estimate(Generic[Value]):
    """Hold a value with its standard error.

    >>> print(Estimate(value=2.5132, stderr=0.0214, n=100))
    2.513 +- 0.021 (n = 100)
    """

    value: Value
    """The estimate."""
    stderr: Value
    """Its standard error; inf where it cannot be estimated, as from one number."""
    n: int
    """The number of independent values."""
    skewness: float = field(default=0.0, repr=False, compare=False)
    """The skewness of the values, which makes the interval asymmetric. Default: 0, not known."""

    @staticmethod
    def of_mean(values: Float[Tensor, " n"]) -> Estimate[float]:
        """Return the mean of independent values, with its standard error.

        Args:
            values: The values, at least one.

        >>> Estimate.of_mean(torch.tensor([1.0, 2.0, 3.0]))
        Estimate(value=2.0, stderr=0.577..., n=3)
        """
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"values must be (n,) with n >= 1, got shape {tuple(values.shape)}")
        exact, n = _device.exact_on_cpu(values), len(values)
        stderr = float(exact.std()) / math.sqrt(n) if n > 1 else math.inf
        return Estimate(float(exact.mean()), stderr, n, _skewness(exact))

    def interval(self, confidence: float = 0.95) -> tuple[Value, Value]:
        """Return an interval that contains the estimated number with the given probability.

        It is the interval of Student's t with n - 1 degrees of freedom, after Hall's transformation (1992), which
        corrects it for the skewness of the values: losses of rows have a long upper tail, and a symmetric interval
        around their mean is too often below the true one. An infinite standard error gives an infinite interval.

        Args:
            confidence: The probability, in (0, 1). Default: 0.95.

        Returns:
            The ends of the interval.

        >>> Estimate(value=2.0, stderr=0.5, n=10).interval()
        (0.8689..., 3.1310...)
        """
        if not isinstance(confidence, Real) or not 0 < confidence < 1:
            raise ValueError(f"confidence must be a probability in (0, 1), got {confidence!r}")
        reach = _student_quantile((1 + confidence) / 2, max(1, self.n - 1))
        above, below = (_hall(y, self.skewness, self.n) for y in (reach, -reach))
        return self.value - above * self.stderr, self.value - below * self.stderr

    def __str__(self) -> str:
        if isinstance(self.value, Tensor) or isinstance(self.stderr, Tensor):
            return f"{len(torch.as_tensor(self.value))} estimates from {self.n} numbers each"
        digits = 3
        if math.isfinite(self.stderr) and self.stderr > 0:
            digits = min(12, max(0, 1 - math.floor(math.log10(self.stderr))))
        return f"{self.value:.{digits}f} +- {self.stderr:.{digits}f} (n = {self.n})"


def _skewness(values: Tensor) -> float:
    """Return the skewness of values; 0 if they are all equal."""
    centred = values - values.mean()
    variance = float(centred.square().mean())
    return float(centred.pow(3).mean()) / variance**1.5 if variance > 0 and math.isfinite(variance) else 0.0


def _hall(quantile: float, skewness: float, n: int) -> float:
    """Return the quantile of a mean in standard errors, from that of a symmetric distribution.

    It inverts g(s) = s + k s^2 / 3 + k^2 s^3 / 27 + k / 6 with k = skewness / sqrt(n), which is monotone.

    >>> round(_hall(1.96, 0.0, 50), 4), round(_hall(1.96, 2.0, 50), 4), round(_hall(-1.96, 2.0, 50), 4)
    (1.96, 1.6447, -2.5867)
    """
    k = skewness / math.sqrt(n)
    if abs(k) < 1e-6:
        return quantile
    return 3 / k * (math.cbrt(1 + k * (quantile - k / 6)) - 1)


def _student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t, from an integral of its density, or an expansion for many degrees of freedom.

    >>> round(_student_quantile(0.975, 9), 6), round(_student_quantile(0.975, 1), 4), round(
    ...     _student_quantile(0.975, 1000), 5
    ... )
    (2.262157, 12.7062, 1.96234)
    """
    if degrees >= _MANY_DEGREES:
        z = NormalDist().inv_cdf(probability)
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    # With t = sqrt(k) tan(a) the density is proportional to cos(a)^(k - 1) on (-pi/2, pi/2), without a tail to cut.
    angles = torch.linspace(0.0, math.pi / 2, 20_001, dtype=torch.float64)
    density = angles.cos() ** (degrees - 1)
    cdf = torch.cumulative_trapezoid(density, angles)
    wanted = (2 * probability - 1) * float(cdf[-1])
    place = int(torch.searchsorted(cdf, torch.tensor(wanted, dtype=torch.float64)))
    before = float(cdf[place - 1]) if place else 0.0
    inside = (wanted - before) / (float(cdf[place]) - before)
    return math.sqrt(degrees) * math.tan(float(angles[place]) + inside * float(angles[1]))
