"""Checks of arguments at entry points: every message states the given and the accepted values.

Reading the values of a tensor on an accelerator makes the host wait, and an index out of range fails there without a
check. Ranges are therefore checked on the CPU only; types and ranks are checked everywhere.
"""

from __future__ import annotations

import math
from numbers import Integral, Real

import torch
from torch import Tensor

from tauleap import _device


def integer(name: str, value: object, *, least: int) -> int:
    """Return a whole number that is at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number >= {least}, got {value!r} of type {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def positive(name: str, value: object) -> float:
    """Return a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number > 0, got {value!r} of type {type(value).__name__}")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return number


def not_negative(name: str, value: object) -> float:
    """Return a finite number that is 0 or more."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number >= 0, got {value!r} of type {type(value).__name__}")
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return number


def states(x: object, num_states: int, *, name: str = "x") -> Tensor:
    """Return int64 states ``0 .. num_states-1`` with a batch axis, contiguous.

    In a tensor of another layout ``flatten`` makes a copy, so that whatever is written there would be lost.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be an int64 tensor (batch, *shape), got {type(x).__name__}")
    if x.dtype != torch.int64:
        raise TypeError(f"{name} must hold states as int64, got {x.dtype}: write {name}.long()")
    if x.ndim < 1:
        raise ValueError(f"{name} must have a batch axis, (batch, *shape), got shape {tuple(x.shape)}")
    if _device.is_host(x.device) and x.numel() > 0:
        low, high = (int(value) for value in torch.aminmax(x))
        if low < 0 or high >= num_states:
            raise ValueError(f"{name} must hold states 0..{num_states - 1}, got values from {low} to {high}")
    return x.contiguous()


def positions(sites: object, x: Tensor) -> None:
    """Raise an error unless ``sites`` are int64 positions (n,) in ``x.flatten()``."""
    if not isinstance(sites, Tensor) or sites.dtype != torch.int64:
        given = sites.dtype if isinstance(sites, Tensor) else type(sites).__name__
        raise TypeError(f"sites must be int64 positions in x.flatten(), got {given}")
    if sites.ndim != 1:
        raise ValueError(f"sites must be positions (n,), with one axis, got shape {tuple(sites.shape)}")
    if _device.is_host(sites.device) and sites.numel() > 0:
        low, high = torch.aminmax(sites)
        if low < 0 or high >= x.numel():
            raise ValueError(f"sites must be positions 0..{x.numel() - 1}, got values from {int(low)} to {int(high)}")


def time(t: object, batch: int | None = None, *, name: str = "t") -> Tensor:
    """Return ``t`` in float64, of shape () or (batch,), with every value in [0, 1]."""
    if isinstance(t, bool) or not isinstance(t, Real | Tensor):
        raise TypeError(f"{name} must be a number or a tensor of times in [0, 1], got {type(t).__name__}")
    if not isinstance(t, Tensor):
        if not 0 <= float(t) <= 1:  # nan is neither
            raise ValueError(f"{name} must lie in [0, 1], got {t}")
        return as_time(float(t))
    if not t.is_floating_point():
        raise TypeError(f"{name} must be a floating-point time in [0, 1], got {t.dtype}")
    if t.ndim > 1 or (t.ndim == 1 and batch is not None and t.shape[0] != batch):
        expected = "() or (batch,)" if batch is None else f"() or ({batch},), one per sample"
        raise ValueError(f"{name} must have shape {expected}, got {tuple(t.shape)}")
    value = as_time(t)
    if _device.is_host(value.device) and value.numel() > 0:
        low, high = torch.aminmax(value)
        if not (float(low) >= 0 and float(high) <= 1):
            raise ValueError(f"{name} must lie in [0, 1], got {t if value.ndim == 0 else value.tolist()}")
    return value


def as_time(t: float | Tensor) -> Tensor:
    """Return a checked time in float64, on the CPU if its device has no float64."""
    if not isinstance(t, Tensor):
        return torch.tensor(float(t), dtype=torch.float64)
    return t.detach() if t.dtype == torch.float64 else _device.exact(t.detach())


def law(name: str, value: object, *, least_states: int = 2) -> Tensor:
    """Return probabilities in float64, divided by their sum along the last axis, which must be 1 up to rounding."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        given = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a floating-point tensor of probabilities, got {given}")
    if value.ndim < 1 or value.shape[-1] < least_states:
        raise ValueError(f"{name} must have shape (*shape, S) with S >= {least_states}, got {tuple(value.shape)}")
    exact = _device.exact(value.detach())
    if not bool(torch.isfinite(exact).all()):
        raise ValueError(f"{name} must hold finite probabilities, got inf or nan")
    if bool((exact < 0).any()):
        raise ValueError(f"{name} must hold probabilities >= 0, got a minimum of {exact.min().item():g}")
    total = exact.sum(-1, keepdim=True)
    off = (total - 1).abs().max().item()
    if off > rounding(value.dtype, value.shape[-1]):
        raise ValueError(f"{name} must sum to 1 over the states, but the sum is off by {off:.3g}: divide it by its sum")
    return exact / total


def generator(value: object, num_states: int | None = None) -> Tensor:
    """Return a generator (S, S) in float64, with the diagonal that makes the rows sum to 0 exactly."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        given = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"generator must be a floating-point tensor (S, S), got {given}")
    size = value.shape[0] if value.ndim else 0
    if value.shape != (size, size) or size < 2 or num_states not in (None, size):
        expected = "(S, S) with S >= 2" if num_states is None else f"({num_states}, {num_states})"
        raise ValueError(f"generator must be a square matrix {expected}, got shape {tuple(value.shape)}")
    exact = _device.exact(value.detach())
    if not bool(torch.isfinite(exact).all()):
        raise ValueError("generator must hold finite rates, got inf or nan")
    off_diagonal = exact.clone().fill_diagonal_(0.0)
    if bool((off_diagonal < 0).any()):
        raise ValueError(f"generator must have off-diagonal rates >= 0, got a minimum of {off_diagonal.min().item():g}")
    exits = off_diagonal.sum(1)
    off = exact.sum(1).abs().max().item()
    if off > rounding(value.dtype, size) * max(exits.max().item(), 1e-300):
        raise ValueError(
            f"the rows of generator must sum to 0, but one sums to {off:.3g}: "
            "write generator - torch.diag(generator.sum(1)) to correct the diagonal"
        )
    if bool((exits == 0).all()):
        raise ValueError("generator must have at least one rate > 0, got all zeros: such a chain never jumps")
    return off_diagonal - torch.diag(exits)


def rounding(dtype: torch.dtype, terms: int) -> float:
    """Return the largest rounding error of a sum of ``terms`` probabilities, which may once have been float32."""
    return 16 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) * max(terms, 8) ** 0.5


def randomness(generator: object) -> None:
    """Raise an error unless ``generator`` is a ``torch.Generator``, or None for that of torch."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator, got {type(generator).__name__}: "
            "write torch.Generator().manual_seed(seed)"
        )
