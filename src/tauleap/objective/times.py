"""Distributions of training times: uniform on (eps, 1), or another with its importance weights.

All except ``ReweightedTimes`` return ``(t, weight)`` such that ``mean(weight * f(t))`` is an unbiased estimate of the
mean of f over U(eps, 1), or over the grid. Over a batch of n the times are *stratified*: one in each of n parts
of equal probability, dealt out to the samples at random, so that each sample's own time still has the whole law while
the batch as a whole covers [eps, 1].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Real
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _device, _draw


class Times(ABC):
    """Define a distribution of training times.

    Args:
        eps: The earliest time, in (0, 1).
        stratified: Draw one time in each of n equally probable parts for a batch of n.

    >>> class EarlyTimes(Times):
    ...     def at(self, places):
    ...         root = (1 - places).sqrt()
    ...         return self.eps + (1 - self.eps) * (1 - root), 1 / (2 * root)
    >>> t, weight = EarlyTimes(0.01, stratified=True).draw(1000, generator=torch.Generator().manual_seed(0))
    >>> print(f"mean time {t.mean():.2f}, weighted {(weight * t).mean():.2f}")
    mean time 0.34, weighted 0.50
    """

    eps: float
    """The earliest time."""
    stratified: bool
    """Whether the times of a batch are stratified."""
    unbiased: ClassVar[bool] = True
    """Whether the weighted mean of a loss is an unbiased estimate of its mean for t ~ U(eps, 1)."""

    def __init__(self, eps: float, stratified: bool) -> None:
        self.eps = _check.positive("eps", eps)
        if self.eps >= 1:
            raise ValueError(f"eps must be a time in (0, 1), the earliest time, got {eps!r}")
        self.stratified = _flag(stratified)

    def draw(
        self, batch: int, *, device: torch.device | None = None, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """Return times and importance weights ``(t, weight)`` in float64, one of each per sample.

        Args:
            batch: The number of samples.
            device: The device of the result. Default: the CPU.
            generator: The source of randomness. Default: that of torch.

        >>> t, weight = UniformTimes().draw(4, generator=torch.Generator().manual_seed(0))
        >>> (t.sort().values * 4).floor()  # one in each quarter
        tensor([0., 1., 2., 3.], dtype=torch.float64)
        """
        where = _device.CPU if device is None else device
        if self.stratified:
            return self.at(_draw.stratified(batch, where, generator))
        return self.at(_draw.uniforms((batch,), where, generator))

    @abstractmethod
    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        """Return ``(t, weight)`` at the given quantiles, by the inverse CDF.

        Args:
            places: The quantiles, in [0, 1).
        """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).values())))


class UniformTimes(Times):
    """Draw t ~ U(eps, 1), as the paper does with eps = 0.01 (Appendix H).

    Args:
        eps: The earliest time, in (0, 1). Default: 0.01.
        stratified: Draw one time in each of n equally probable parts for a batch of n. Default: True.

    >>> UniformTimes().at(torch.tensor([0.5], dtype=torch.float64))
    (tensor([0.5050], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """

    def __init__(self, eps: float = 0.01, *, stratified: bool = True) -> None:
        super().__init__(eps, stratified)

    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        return self.eps + (1 - self.eps) * places, torch.ones_like(places)

    def __repr__(self) -> str:
        return f"UniformTimes({self.eps:g}{'' if self.stratified else ', stratified=False'})"


class LogUniformTimes(Times):
    """Draw t with density 1 / t on (eps, 1), uniform in log t: for losses that grow like 1 / t towards the data.

    Args:
        eps: The earliest time, in (0, 1). Default: 0.01.
        stratified: Draw one time in each of n equally probable parts for a batch of n. Default: True.

    >>> t, weight = LogUniformTimes(0.01).at(torch.tensor([0.0, 0.5], dtype=torch.float64))
    >>> t  # half of the times are below the geometric mean of eps and 1
    tensor([0.0100, 0.1000], dtype=torch.float64)
    """

    def __init__(self, eps: float = 0.01, *, stratified: bool = True) -> None:
        super().__init__(eps, stratified)

    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        t = self.eps ** (1 - places)
        return t, t * (-math.log(self.eps) / (1 - self.eps))

    def __repr__(self) -> str:
        return f"LogUniformTimes({self.eps:g}{'' if self.stratified else ', stratified=False'})"


class ReweightedTimes(Times):
    """Draw t ~ U(eps, 1) and weight the loss by a function of t of mean 1.

    The result is another loss, and not a bound on the likelihood.

    The loss of the bound grows towards the data, and so does the variance of its gradient, whereas the content of a
    picture is determined at late times, where the loss is close to 0. With ``power`` the weight is proportional to
    t^power; with ``weights`` it is constant on parts of (eps, 1). Weights of one over the norm of the gradient give all
    times the same influence.

    Args:
        eps: The earliest time, in (0, 1). Default: 0.01.
        power: The exponent of t, > 0. Default: None; give one of ``power`` and ``weights``.
        weights: One weight > 0 for each of as many parts of (eps, 1) of equal width. Default: None.
        stratified: Draw one time in each of n equally probable parts for a batch of n. Default: True.

    Raises:
        ValueError: Both or none of ``power`` and ``weights`` are given, or one is out of its range.

    >>> places = torch.tensor([0.0, 0.5], dtype=torch.float64)
    >>> ReweightedTimes(0.01, power=1.0).at(places)
    (tensor([0.0100, 0.5050], dtype=torch.float64), tensor([0.0198, 1.0000], dtype=torch.float64))
    >>> ReweightedTimes(0.01, weights=[1.0, 3.0]).at(places)
    (tensor([0.0100, 0.5050], dtype=torch.float64), tensor([0.5000, 1.5000], dtype=torch.float64))
    """

    unbiased = False

    def __init__(
        self,
        eps: float = 0.01,
        *,
        power: float | None = None,
        weights: Sequence[float] | None = None,
        stratified: bool = True,
    ) -> None:
        super().__init__(eps, stratified)
        if (power is None) == (weights is None):
            raise ValueError("ReweightedTimes needs exactly one of power and weights: write power=1.5 or weights=[...]")
        self.power = None if power is None else _check.positive("power", power)
        self.weights = None if weights is None else _normalised(weights)

    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        t = self.eps + (1 - self.eps) * places
        if self.weights is not None:
            weights = torch.tensor(self.weights, dtype=places.dtype, device=places.device)
            return t, len(weights) * weights[(places * len(weights)).long().clamp(max=len(weights) - 1)]
        power = 0.0 if self.power is None else self.power  # one of the two is given
        mean = (1 - self.eps ** (power + 1)) / ((power + 1) * (1 - self.eps))
        return t, t**power / mean

    def __repr__(self) -> str:
        how = f"power={self.power:g}" if self.weights is None else f"weights={_written(self.weights)}"
        return f"ReweightedTimes({self.eps:g}, {how}{'' if self.stratified else ', stratified=False'})"


class WeightedTimes(Times):
    """Draw t from a piecewise-constant density on (eps, 1), with importance weights that keep the loss unbiased.

    The loss is divided by the density, so that its mean is unchanged and only its variance differs; the variance is
    least for a density proportional to the root mean square of the loss, which ``fitted_times`` measures.

    Args:
        weights: The relative probability of each of as many parts of (eps, 1) of equal width, > 0.
        eps: The earliest time, in (0, 1). Default: 0.01.
        stratified: Draw one time in each of n equally probable parts for a batch of n. Default: True.

    Raises:
        ValueError: A weight is not a positive number.

    >>> times = WeightedTimes([3.0, 1.0], eps=0.01)
    >>> t, weight = times.at(torch.tensor([0.0, 0.75, 0.875], dtype=torch.float64))
    >>> t, weight
    (tensor([0.0100, 0.5050, 0.7525], dtype=torch.float64), tensor([0.6667, 2.0000, 2.0000], dtype=torch.float64))
    """

    def __init__(self, weights: Sequence[float], eps: float = 0.01, *, stratified: bool = True) -> None:
        super().__init__(eps, stratified)
        self.weights = _normalised(weights)

    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        probs = torch.tensor(self.weights, dtype=places.dtype, device=places.device)
        ends = probs.cumsum(0)
        part = torch.searchsorted(ends, places.contiguous(), right=True).clamp(max=len(probs) - 1)
        within = ((places - (ends - probs)[part]) / probs[part]).clamp(0, 1)
        t = self.eps + (1 - self.eps) * (part + within) / len(probs)
        return t.clamp(max=1.0), 1 / (len(probs) * probs[part])

    def __repr__(self) -> str:
        return f"WeightedTimes({_written(self.weights)}, {self.eps:g}{'' if self.stratified else ', stratified=False'})"


class GridTimes(Times):
    """Draw one of the times 1/K, 2/K, ..., 1 with equal probability: those of a process discretised in K steps.

    Args:
        steps: The number of steps K, >= 1.
        stratified: Draw one time in each of n equally probable parts for a batch of n. Default: True.

    >>> GridTimes(4).at(torch.tensor([0.0, 0.3, 0.99], dtype=torch.float64))[0]
    tensor([0.2500, 0.5000, 1.0000], dtype=torch.float64)
    """

    def __init__(self, steps: int, *, stratified: bool = True) -> None:
        self.steps = _check.integer("steps", steps, least=1)
        self.eps = 1 / self.steps
        self.stratified = _flag(stratified)

    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        number = (places * self.steps).floor().clamp(max=self.steps - 1) + 1
        return number / self.steps, torch.ones_like(places)

    def __repr__(self) -> str:
        return f"GridTimes({self.steps}{'' if self.stratified else ', stratified=False'})"


def _normalised(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights of parts of (eps, 1), checked and divided by their sum."""
    if isinstance(weights, Tensor) or not isinstance(weights, Sequence) or isinstance(weights, str):
        hint = ": write weights.tolist()" if isinstance(weights, Tensor) else ""
        raise TypeError(
            f"weights must be a list of numbers > 0, one for each part of (eps, 1), got {type(weights).__name__}{hint}"
        )
    for w in weights:
        if isinstance(w, bool) or not isinstance(w, Real):
            raise TypeError(f"weights must be a list of plain numbers, got one of type {type(w).__name__} in it")
    values = [float(w) for w in weights]
    if not values or not all(math.isfinite(w) and w > 0 for w in values):
        raise ValueError(
            f"weights must be numbers > 0, one for each part of (eps, 1), got {list(weights)}: "
            "a part of weight 0 would be ignored, and the loss would be biased"
        )
    total = math.fsum(values)
    return tuple(w / total for w in values)


def _written(weights: tuple[float, ...]) -> str:
    return f"[{', '.join(f'{weight:.6g}' for weight in weights)}]"


def _flag(stratified: object) -> bool:
    if not isinstance(stratified, bool):
        raise TypeError(f"stratified must be True or False, got {stratified!r}")
    return stratified


def fitted_times(
    t: Float[Tensor, " n"], loss: Float[Tensor, " n"], *, parts: int = 20, eps: float = 0.01, even: float = 0.1
) -> WeightedTimes:
    """Return the times for which the mean of ``loss`` has the least variance.

    The density is proportional to the root mean square of the loss in each part, mixed with the uniform density so that
    no part is neglected. For the variance of the gradient pass norms of gradients as ``loss``.

    Args:
        t: Times in (eps, 1).
        loss: The losses at these times.
        parts: The number of parts of (eps, 1), each with at least one loss. Default: 20.
        eps: The earliest time, in (0, 1). Default: 0.01.
        even: The fraction of the uniform density, in [0, 1]. Default: 0.1.

    Returns:
        The times, which can be given to an objective: ``CompleteElbo(times=...)``.

    Raises:
        TypeError: ``t`` or ``loss`` is not a floating-point tensor.
        ValueError: A part has no loss, or a number is out of its range.

    >>> t = torch.linspace(0.02, 0.99, 50)
    >>> fitted_times(t, 3 * (t < 0.5) + 1.0, parts=2).weights
    (0.77..., 0.22...)
    """
    parts = _check.integer("parts", parts, least=1)
    for name, value in (("t", t), ("loss", loss)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            given = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"{name} must be a floating-point tensor (n,), got {given}")
    if t.ndim != 1 or t.shape != loss.shape:
        raise ValueError(f"t and loss must be (n,) both, got {tuple(t.shape)} and {tuple(loss.shape)}")
    if not 0 <= even <= 1:
        raise ValueError(f"even must be a fraction in [0, 1], got {even!r}")
    eps = UniformTimes(eps).eps
    if not bool(((t >= eps - 1e-6) & (t <= 1)).all()):  # nan is neither; float32 may have rounded eps down
        raise ValueError(f"t must lie in (eps, 1) = ({eps:g}, 1), got values from {float(t.min())} to {float(t.max())}")
    t, loss = _device.exact(t.detach()), _device.exact(loss.detach())
    part = ((t - eps) / (1 - eps) * parts).floor().clamp(0, parts - 1).long()
    squares = torch.zeros(parts, dtype=torch.float64, device=t.device)
    counts = torch.zeros_like(squares).index_add_(0, part, torch.ones_like(t))
    if bool((counts == 0).any()):
        empty = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(
            f"each of the {parts} parts of (eps, 1) needs a loss, but no t lies in the parts {empty}: write fewer parts"
        )
    squares.index_add_(0, part, loss**2)
    roots = (squares / counts).sqrt()
    if not bool(torch.isfinite(roots).all()) or float(roots.sum()) == 0:
        raise ValueError("the losses must be finite, and not all 0: give the losses of a model on data")
    weights = (1 - even) * roots / roots.sum() + even / parts
    return WeightedTimes(weights.tolist(), eps)
