"""The interface of objectives, which can be added and scaled."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device, _draw
from tauleap._shapes import States, Time
from tauleap.denoise.on_device import moved
from tauleap.objective.noised_batch import LossBatch, NoisedBatch, Pass
from tauleap.objective.times import GridTimes, Times, UniformTimes
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess


@dataclass(frozen=True)
class Loss:
    """Hold the loss of every sample in nats, and its terms.

    >>> loss = Loss(torch.tensor([1.0, 3.0]), {"jumps": torch.tensor([1.0, 3.0])})
    >>> loss.mean(), (loss + loss.scaled(0.5)).terms["jumps"]
    (tensor(2.), tensor([1.5000, 4.5000]))
    """

    value: Float[Tensor, " batch"]
    """The loss of each sample, in nats."""
    terms: Mapping[str, Float[Tensor, " batch"]]
    """The terms, which add up to the value and have no gradient."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", {name: term.detach() for name, term in self.terms.items()})

    def mean(self) -> Float[Tensor, ""]:
        """Return the mean over the batch, which is minimised."""
        return self.value.mean()

    def to(self, device: torch.device) -> Loss:
        """Return the loss and its terms on ``device``, where float64 may become float32; itself if it is there.

        Args:
            device: The device to copy to.
        """
        if self.value.device == device:
            return self
        return Loss(moved(self.value, device), {name: moved(term, device) for name, term in self.terms.items()})

    def scaled(self, factor: float) -> Loss:
        """Return the loss and all its terms times a number.

        Args:
            factor: The number.
        """
        return self if factor == 1 else Loss(factor * self.value, {k: factor * v for k, v in self.terms.items()})

    def __add__(self, other: Loss) -> Loss:
        terms = dict(self.terms)
        for name, term in other.terms.items():
            terms[name] = terms[name] + term if name in terms else term
        return Loss(self.value + other.value, terms)


class Objective(ABC):
    """Define a loss of a reverse process on data.

    A subclass defines ``needs``, the states at which the network is evaluated (see ``NoisedBatch``; empty for an
    objective that uses the evaluations of others), ``times``, the distribution of its times (None for that of the
    objectives that it is added to), and :meth:`evaluate`. An objective whose value is an integral over (eps, 1) sets
    ``integrates``, and is then never evaluated at the times of a grid, over which the mean is another number.

    >>> from tauleap import denoise, noise
    >>> class CrossEntropy(Objective):
    ...     def evaluate(self, batch):
    ...         value = batch.mean_over_time(-batch.sum(batch.at("x_t").log_prob(batch.x0)))
    ...         return Loss(value, {"cross-entropy": value})
    >>> process = noise.Absorbing(3, noise.Constant(50.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(torch.tensor([0.75, 0.25, 0.0]), process))
    >>> CrossEntropy()(reverse, torch.tensor([[0], [1]]), t=1.0).value  # -log 0.75 and -log 0.25
    tensor([0.2877, 1.3863])
    """

    needs: frozenset[Pass] = frozenset({"x_t"})
    times: Times | None = None
    integrates: bool = False
    samples_per_time: int = 1
    """How many samples of a batch share one time."""
    by_number: bool = False
    """Whether the noise is drawn by the number of masked sites instead of the time."""

    @abstractmethod
    def evaluate(self, batch: LossBatch) -> Loss:
        """Return the loss of a batch with its noise and predictions.

        Args:
            batch: The data, the times, the noised states and the predictions.
        """

    @final
    def __call__(
        self,
        reverse: ReverseProcess,
        x0: States,
        *,
        t: Time | None = None,
        observed: Observed | None = None,
        missing: Tensor | None = None,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Loss:
        """Return the loss of each sample.

        Args:
            reverse: The reverse process.
            x0: The data.
            t: The time, one for all samples or one per sample. Default: drawn from ``times``, with importance weights.
            observed: Observed sites: inputs of the network, without noise and without loss. Default: none.
            missing: A bool mask of unknown values, without loss: x0 may hold any state there, and the network gets a
                draw from the sampling prior. Default: none.
            condition: The input of the network. If the network is evaluated at several states per sample and the
                condition has one row per sample, its rows are repeated. Default: none.
            generator: The source of randomness. Default: that of torch.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument has the wrong shape or values.
        """
        if not isinstance(reverse, ReverseProcess):
            raise TypeError(
                f"an objective takes a ReverseProcess, got {type(reverse).__name__}: "
                "write ReverseProcess(process, denoiser)"
            )
        if not isinstance(x0, Tensor) or x0.dtype != torch.int64:
            given = x0.dtype if isinstance(x0, Tensor) else type(x0).__name__
            raise TypeError(f"x0 must be an int64 tensor (batch, *shape), got {given}")
        if x0.ndim < 1 or x0.numel() == 0:
            raise ValueError(f"x0 must hold at least one sample with at least one site, got shape {tuple(x0.shape)}")
        device = x0.device
        if _device.lacks_float64(device):
            reverse, x0, t = reverse.on_cpu(), moved(x0, _device.CPU), moved(t, _device.CPU)
            observed, missing, condition = (moved(value, _device.CPU) for value in (observed, missing, condition))
        batch = NoisedBatch(
            reverse,
            x0,
            self.times or UniformTimes(),
            self.needs or frozenset({"x_t"}),
            t=t,
            observed=observed,
            missing=missing,
            condition=condition,
            samples_per_time=self.samples_per_time,
            places=_draw.stratified(len(x0), x0.device, generator) if self.by_number and t is None else None,
            generator=generator,
        )
        return self.evaluate(batch).to(device)

    @final
    def __add__(self, other: Objective) -> Objective:
        if not isinstance(other, Objective):
            return NotImplemented
        return Sum([*_parts(self), *_parts(other)])

    @final
    def __radd__(self, other: object) -> Objective:
        """Let ``sum`` add a list of objectives, which begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @final
    def __mul__(self, factor: float) -> Objective:
        if isinstance(factor, bool) or not isinstance(factor, Real):
            return NotImplemented
        if not math.isfinite(factor) or factor < 0:
            raise ValueError(f"an objective can be scaled by a finite number >= 0, got {factor!r}")
        return Sum([(float(factor) * weight, part) for weight, part in _parts(self)])

    __rmul__ = __mul__


class Sum(Objective):
    """Add objectives with weights, on one draw of times and noise and one evaluation of the network."""

    def __init__(self, parts: list[tuple[float, Objective]]) -> None:
        self.parts = parts
        _common_samples_per_time([part.samples_per_time for _, part in parts])
        self.times = _common_times([part.times for _, part in parts])
        self.integrates = any(part.integrates for _, part in parts)
        self.by_number = all(part.by_number for _, part in parts)
        if not self.by_number and any(part.by_number for _, part in parts):
            raise ValueError(
                "AnyOrderElbo() draws numbers of masked sites, and objectives that draw times cannot be added to it: "
                "use it alone, or CompleteElbo() in the sum"
            )
        for _, part in parts:
            if part.integrates:
                check_times(self.times, integral=part)

    @property
    def samples_per_time(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _common_samples_per_time([part.samples_per_time for _, part in self.parts])

    @property
    def needs(self) -> frozenset[Pass]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return frozenset().union(*(part.needs for _, part in self.parts))

    def evaluate(self, batch: LossBatch) -> Loss:
        return reduce(operator.add, (part.evaluate(batch).scaled(weight) for weight, part in self.parts))

    def __repr__(self) -> str:
        return " + ".join(repr(part) if weight == 1 else f"{weight:g} * {part!r}" for weight, part in self.parts)


def _parts(objective: Objective) -> list[tuple[float, Objective]]:
    return objective.parts if isinstance(objective, Sum) else [(1.0, objective)]


def _common_times(times: list[Times | None]) -> Times | None:
    given = [each for each in times if each is not None]
    if any(each != given[0] for each in given):
        raise ValueError(
            f"objectives that are added must have the same times, got {', '.join(map(repr, given))}: "
            "give all of them the same times=, or leave it out in all but one"
        )
    return given[0] if given else None


def _common_samples_per_time(numbers: list[int]) -> int:
    given = {number for number in numbers if number > 1}
    if len(given) > 1:
        raise ValueError(
            f"objectives that are added must have the same times, got "
            f"{' and '.join(f'samples_per_time={number}' for number in sorted(given))}: give all the same number"
        )
    return given.pop() if given else 1


def check_times(times: object, *, integral: Objective | None = None) -> Times | None:
    """Return a distribution of times, or None; raise an error for a grid if the loss is an ``integral`` over time."""
    if times is not None and not isinstance(times, Times):
        raise TypeError(f"times must be a distribution of times such as UniformTimes(0.01), got {type(times).__name__}")
    if isinstance(times, GridTimes) and integral is not None:
        name = type(integral).__name__
        raise ValueError(
            f"{name} is an integral over all times in (eps, 1), and the mean over {times!r} is not that: write "
            f"times=UniformTimes(eps) for {name}, or DiscreteTimeElbo({times.steps}) for the bound of a process with "
            f"{times.steps} discrete times"
        )
    return times
