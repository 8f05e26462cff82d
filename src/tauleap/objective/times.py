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
    """A law of times."""

    eps: float
    """The earliest time."""
    stratified: bool
    unbiased: ClassVar[bool] = True
    """Whether the weights make up for the law, so that the mean of a loss is what it is over even times."""

    def __init__(self, eps: float, stratified: bool) -> None:
        self.eps = _check.positive("eps", eps)
        if self.eps >= 1:
            raise ValueError(f"eps must be a time in (0, 1), the earliest that is looked at, got {eps!r}")
        self.stratified = _flag(stratified)

    def draw(
        self, batch: int, *, device: torch.device | None = None, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """``(t, weight)`` in float64, one of each a sample.

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
        """``(t, weight)`` for places in [0, 1): the law's inverse CDF."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).values())))


class UniformTimes(Times):
    """U(eps, 1), the paper's, with its eps of 0.01 (Appendix H)."""

    def __init__(self, eps: float = 0.01, *, stratified: bool = True) -> None:
        super().__init__(eps, stratified)

    def at(self, places: Float[Tensor, "*n"]) -> tuple[Float[Tensor, "*n"], Float[Tensor, "*n"]]:
        return self.eps + (1 - self.eps) * places, torch.ones_like(places)

    def __repr__(self) -> str:
        return f"UniformTimes({self.eps:g}{'' if self.stratified else ', stratified=False'})"


class LogUniformTimes(Times):
    """Density 1 / t on (eps, 1), even in log t: for processes whose loss grows like 1 / t towards the data.

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
    """U(eps, 1), where losses count by their time: in proportion to t^``power``, or to ``weights``. For what is drawn.

    Alone among these laws its weights undo nothing. The mean of a loss over it is another loss, with the same minimum,
    as the truth is best at every time, and with other priorities on the way there. A bound grows like 1 / t or faster
    towards the data, and so does the noise of its gradient, while what a picture shows is settled at late times, where
    it is next to nothing. ``weights`` has one for each of as many parts of (eps, 1) of equal width; one over the norm
    of the gradient at these times lets all of them speak equally loud. The weights have mean 1.

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
            raise ValueError("ReweightedTimes needs one of power=1.5 and weights=[...], and not both")
        self.power = None if power is None else _check.positive("power", power)
        self.weights = None if weights is None else _shares(weights)

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
    """Importance sampling over t: a density on (eps, 1) that is constant on ``len(weights)`` parts of equal width.

    The loss is divided by the density, so that its mean stays what it is and only its variance changes; least variance
    has a density in proportion to the root of the mean square of the loss. ``fitted_times`` measures that.

    >>> times = WeightedTimes([3.0, 1.0], eps=0.01)
    >>> t, weight = times.at(torch.tensor([0.0, 0.75, 0.875], dtype=torch.float64))
    >>> t, weight
    (tensor([0.0100, 0.5050, 0.7525], dtype=torch.float64), tensor([0.6667, 2.0000, 2.0000], dtype=torch.float64))
    """

    def __init__(self, weights: Sequence[float], eps: float = 0.01, *, stratified: bool = True) -> None:
        super().__init__(eps, stratified)
        self.weights = _shares(weights)

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
    """One of the times 1/K, 2/K, ..., 1, each as likely as another: those of a process cut into K steps.

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


def _shares(weights: Sequence[float]) -> tuple[float, ...]:
    """Weights of parts of (eps, 1), checked and divided by their sum."""
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
            "a part of weight 0 would never be seen or never count, and the loss would be wrong"
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
    """The times for which the mean of ``loss`` has the least variance, from losses seen at times ``t`` in (eps, 1).

    The density is in proportion to the root of the mean square of the loss in each of ``parts`` parts, mixed with the
    share ``even`` of the uniform one so that no part is starved. For the gradient give norms of gradients as ``loss``.

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
        raise ValueError(f"even must be a share in [0, 1], got {even!r}")
    eps = UniformTimes(eps).eps
    if not bool(((t >= eps - 1e-6) & (t <= 1)).all()):  # nan is neither; float32 may have rounded eps down
        raise ValueError(f"t must lie in (eps, 1) = ({eps:g}, 1), got values from {float(t.min())} to {float(t.max())}")
    t, loss = _device.exact(t.detach()), _device.exact(loss.detach())
    part = ((t - eps) / (1 - eps) * parts).floor().clamp(0, parts - 1).long()
    squares = torch.zeros(parts, dtype=torch.float64, device=t.device)
    counts = torch.zeros_like(squares).index_add_(0, part, torch.ones_like(t))
    if bool((counts == 0).any()):
        empty = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(f"every one of the {parts} parts needs a loss, parts {empty} have none: take fewer parts")
    squares.index_add_(0, part, loss**2)
    roots = (squares / counts).sqrt()
    if not bool(torch.isfinite(roots).all()) or float(roots.sum()) == 0:
        raise ValueError("the losses must be finite, and not all 0")
    weights = (1 - even) * roots / roots.sum() + even / parts
    return WeightedTimes(weights.tolist(), eps)
