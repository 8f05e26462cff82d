"""A number with its error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device

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
        return Estimate(float(exact.mean()), stderr, n)

    def __str__(self) -> str:
        if isinstance(self.value, Tensor) or isinstance(self.stderr, Tensor):
            return f"{len(torch.as_tensor(self.value))} estimates from {self.n} numbers each"
        digits = 3
        if math.isfinite(self.stderr) and self.stderr > 0:
            digits = min(12, max(0, 1 - math.floor(math.log10(self.stderr))))
        return f"{self.value:.{digits}f} +- {self.stderr:.{digits}f} (n = {self.n})"
