"""Noise schedules: the rate beta(t), its integral c(t), and the inverse of c.

A process has the generator ``R_t = beta(t) R_b``, so its kernels depend on time through ``c(t) = int_0^t beta`` alone
(Section 4.1). Two schedules are given by ``alpha(t) = exp(-c(t))`` instead, the fraction of a rank-one process' mass
that has not moved: they end at ``alpha(1) = 0.001``, so that c(1) is finite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import Time

_FINAL_ALPHA = 1e-3


def _tensor(value: float | Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)


class Schedule(ABC):
    """Define the noise rate beta(t) on [0, 1] and its integral c(t).

    Results have the device and dtype of the argument; a Python number counts as float64.

    >>> schedule = Exponential(5.0, 5.0)
    >>> schedule.total(1.0)
    tensor(20., dtype=torch.float64)
    >>> schedule.inverse_total(schedule.total(0.25))
    tensor(0.2500, dtype=torch.float64)
    """

    @abstractmethod
    def rate(self, t: float | Tensor) -> Tensor:
        """Return the rate beta(t).

        Args:
            t: The time or times, in [0, 1].
        """

    @abstractmethod
    def total(self, t: float | Tensor) -> Tensor:
        """Return c(t), the integral of beta over [0, t]; exactly 0 at t = 0.

        Args:
            t: The time or times, in [0, 1].
        """

    @abstractmethod
    def inverse_total(self, c: float | Tensor) -> Tensor:
        """Return the time t with c(t) = c.

        Args:
            c: The integral or integrals, from 0 to c(1).
        """

    def between(self, s: float | Tensor, t: float | Tensor) -> Tensor:
        """Return c(t) - c(s); subclasses avoid the difference where it would lose digits.

        Args:
            s: The earlier time or times, in [0, 1].
            t: The later time or times, in [0, 1].
        """
        return self.total(t) - self.total(s)


class Constant(Schedule):
    """Define a constant rate, beta(t) = beta.

    The paper uses 0.03 for music with uniform noise.

    Args:
        beta: The rate, > 0.

    Raises:
        ValueError: ``beta`` is not a positive number.

    >>> Constant(2.0).total(0.5)
    tensor(1., dtype=torch.float64)
    """

    def __init__(self, beta: float) -> None:
        self.beta = _check.positive("beta", beta)

    def rate(self, t: float | Tensor) -> Tensor:
        return torch.full_like(_tensor(t), self.beta)

    def total(self, t: float | Tensor) -> Tensor:
        return self.beta * _tensor(t)

    def inverse_total(self, c: float | Tensor) -> Tensor:
        return _tensor(c) / self.beta

    def between(self, s: float | Tensor, t: float | Tensor) -> Tensor:
        return self.beta * (_tensor(t) - _tensor(s))

    def __repr__(self) -> str:
        return f"Constant({self.beta:g})"


class Exponential(Schedule):
    """Define the rate beta(t) = a b^t log b, so that c(t) = a (b^t - 1).

    The paper uses (5, 5) for the toy, (3, 100) for images, and (0.5, 10000) for music with birth/death noise.

    Args:
        a: The factor, > 0.
        b: The base, > 1.

    Raises:
        ValueError: A number is out of its range.

    >>> Exponential(3.0, 100.0).total(1.0)
    tensor(297., dtype=torch.float64)
    """

    def __init__(self, a: float, b: float) -> None:
        self.a = _check.positive("a", a)
        self.b = _check.positive("b", b)
        if self.b <= 1:
            raise ValueError(f"b must be > 1, so that the rate grows with t, got {b!r}; for a flat rate write Constant")

    def rate(self, t: float | Tensor) -> Tensor:
        log_b = math.log(self.b)
        return self.a * log_b * torch.exp(log_b * _tensor(t))

    def total(self, t: float | Tensor) -> Tensor:
        t = _tensor(t)
        # Each form is exact at its own end: the first loses no digits near 0, the second gives a (b - 1) at 1.
        return self.a * torch.where(t < 0.5, torch.expm1(math.log(self.b) * t), self.b**t - 1)

    def inverse_total(self, c: float | Tensor) -> Tensor:
        return torch.log1p(_tensor(c) / self.a) / math.log(self.b)

    def between(self, s: float | Tensor, t: float | Tensor) -> Tensor:
        log_b = math.log(self.b)
        s, t = _tensor(s), _tensor(t)
        return self.a * torch.exp(log_b * s) * torch.expm1(log_b * (t - s))

    def __repr__(self) -> str:
        return f"Exponential({self.a:g}, {self.b:g})"


class LogLinear(Schedule):
    """Define alpha(t) = exp(-c(t)) = 1 - (1 - 0.001) t: the mass of a rank-one process moves at a constant rate.

    >>> LogLinear().total(1.0).neg().exp()
    tensor(0.0010, dtype=torch.float64)
    """

    def rate(self, t: float | Tensor) -> Tensor:
        final_masked = 1 - _FINAL_ALPHA
        return final_masked / (_FINAL_ALPHA + final_masked * (1 - _tensor(t)))

    def total(self, t: float | Tensor) -> Tensor:
        return -torch.log1p(-(1 - _FINAL_ALPHA) * _tensor(t))

    def inverse_total(self, c: float | Tensor) -> Tensor:
        return -torch.expm1(-_tensor(c)) / (1 - _FINAL_ALPHA)

    def between(self, s: float | Tensor, t: float | Tensor) -> Tensor:
        final_masked, s, t = 1 - _FINAL_ALPHA, _tensor(s), _tensor(t)
        return torch.log1p(final_masked * (t - s) / (1 - final_masked * t))

    def __repr__(self) -> str:
        return "LogLinear()"


class Cosine(Schedule):
    """Define alpha(t) = exp(-c(t)) = 0.001 + (1 - 0.001) (1 - sin(pi t / 2)): fast at first, slow near t = 1.

    >>> Cosine().total(1.0).neg().exp()
    tensor(0.0010, dtype=torch.float64)
    """

    def rate(self, t: float | Tensor) -> Tensor:
        final_masked, t = 1 - _FINAL_ALPHA, _tensor(t)
        cosine = torch.sin(math.pi / 2 * (1 - t))  # exactly 0 at 1, and never below it
        return math.pi / 2 * final_masked * cosine / (1 - final_masked * torch.sin(math.pi / 2 * t))

    def total(self, t: float | Tensor) -> Tensor:
        return -torch.log1p(-(1 - _FINAL_ALPHA) * torch.sin(math.pi / 2 * _tensor(t)))

    def inverse_total(self, c: float | Tensor) -> Tensor:
        sine = -torch.expm1(-_tensor(c)) / (1 - _FINAL_ALPHA)
        return torch.asin(sine.clamp(max=1.0)) * (2 / math.pi)

    def between(self, s: float | Tensor, t: float | Tensor) -> Tensor:
        final_masked, s, t = 1 - _FINAL_ALPHA, _tensor(s), _tensor(t)
        quarter = math.pi / 4
        increase = 2 * final_masked * torch.cos(quarter * (t + s)) * torch.sin(quarter * (t - s))
        return torch.log1p(increase / (1 - final_masked * torch.sin(2 * quarter * t)))

    def __repr__(self) -> str:
        return "Cosine()"


def times_on(device: torch.device, t: Time) -> Tensor:
    """Return checked times as a float64 tensor: one per sample on ``device``, or one for all where it is.

    Args:
        device: that of the states.
        t: one time, or one per sample.
    """
    time = t if isinstance(t, Tensor) and t.dtype == torch.float64 else _check.as_time(t)
    return time if time.ndim == 0 or time.device == device else _device.moved_to(time, device)
