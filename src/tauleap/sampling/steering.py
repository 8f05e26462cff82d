"""Steer samples by a potential: sequential Monte Carlo over several particles per sample.

The target is the distribution of the sampler's x0 times exp(f(x0)), normalised. The particles of a sample take the
sampler's steps, and after each step a particle has the weight exp(f) of its predicted x0, relative to that of the
step before. Where the weights become uneven, particles are resampled in proportion to them. These weights cancel: in
the end a particle has the weight exp(f(x0)), corrected for the resampling, and one particle of each sample is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _draw
from tauleap._shapes import PerSample, States

Potential: TypeAlias = Callable[[Tensor], Tensor]
"""Return the logarithm f of the weight of each row of clean states, (n, *shape) -> (n,); -inf forbids a row."""
_PARTICLES = 8
"""The default number of particles per sample."""
_RESAMPLE_BELOW = 0.5
"""Particles are resampled if the effective size is below this part of their number, the usual choice."""


class Particles:
    """Hold the weights of the particles of some samples.

    Args:
        potential: The logarithm of the weight of a row.
        samples: The number of samples.
        each: The number of particles per sample.
        device: The device of the states.
        generator: The source of randomness.
    """

    def __init__(
        self, potential: Potential, samples: int, each: int, device: torch.device, generator: torch.Generator | None
    ) -> None:
        self.potential, self.samples, self.each, self.generator = potential, samples, each, generator
        self.log_weights = torch.zeros(samples, each, dtype=torch.float64, device=device)
        self.previous = torch.zeros_like(self.log_weights)
        """The potential by which each particle was last weighted."""
        self.sizes: list[Tensor] = []

    def step(self, x: States, predicted: States) -> States:
        """Return the states, resampled where the weights are uneven.

        Args:
            x: The states, (samples * each, *shape).
            predicted: The predicted x0 of each.
        """
        values = self._values(predicted)
        # A hard constraint counts at the end only: a prediction that violates it says little about the sample.
        values = torch.where(values.isneginf(), self.previous, values)
        self.log_weights, self.previous = self.log_weights + values - self.previous, values
        size = effective_size(self.log_weights)
        uneven = size < _RESAMPLE_BELOW * self.each
        if bool(uneven.any()):
            chosen = systematic(self.log_weights.softmax(1), self.generator)
            own = torch.arange(self.each, device=x.device).expand_as(chosen)
            chosen = torch.where(uneven[:, None], chosen, own)
            first = torch.arange(self.samples, device=x.device)[:, None] * self.each
            x = x[(first + chosen).flatten()]
            self.previous = self.previous.gather(1, chosen)
            self.log_weights = torch.where(uneven[:, None], 0.0, self.log_weights)
        self.sizes.append(size.mean())
        return x

    def select(self, x0: States) -> tuple[Tensor, Float[Tensor, " steps"]]:
        """Return one particle per sample, drawn by the final weights, and the mean effective size at each step.

        Args:
            x0: The samples of all particles, (samples * each, *shape).

        Raises:
            ValueError: No particle of a sample has a weight above 0.
        """
        log_weights = self.log_weights + self._values(x0) - self.previous
        impossible = log_weights.isneginf().all(1)
        if bool(impossible.any()):
            raise ValueError(
                f"the potential is -inf for all {self.each} particles of {int(impossible.sum())} of {self.samples} "
                "samples: write more particles, or a potential that is finite for more rows"
            )
        chosen = _draw.categorical(log_weights.softmax(1), self.generator)
        first = torch.arange(self.samples, device=x0.device) * self.each
        sizes = [*self.sizes, effective_size(log_weights).mean()]
        return x0[first + chosen], torch.stack(sizes).cpu()

    def _values(self, x0: States) -> Float[Tensor, "samples each"]:
        values = self.potential(x0)
        if not isinstance(values, Tensor) or values.shape != (len(x0),) or not values.is_floating_point():
            given = f"{values.dtype} of shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values)
            raise ValueError(f"potential must return one floating-point number per row, ({len(x0)},), got {given}")
        values = values.detach().to(self.log_weights.device, torch.float64)
        if bool(values.isnan().any()) or bool(values.isposinf().any()):
            raise ValueError("potential must return finite numbers or -inf, got NaN or inf")
        return values.reshape(self.samples, self.each)


def effective_size(log_weights: Float[Tensor, "samples each"]) -> PerSample:
    """Return the effective sample size of each row of weights, 1 / sum of squared normalised weights."""
    return 1 / log_weights.softmax(1).square().sum(1)


def systematic(weights: Float[Tensor, "samples each"], generator: torch.Generator | None) -> Tensor:
    """Return positions of particles, each in proportion to its weight, by systematic resampling.

    Args:
        weights: Normalised weights.
        generator: The source of randomness.
    """
    samples, each = weights.shape
    offset = _draw.uniforms((samples, 1), weights.device, generator)
    places = (torch.arange(each, device=weights.device) + offset) / each
    cdf = weights.cumsum(1)
    return torch.searchsorted(cdf / cdf[:, -1:], places, right=True).clamp(max=each - 1)


def check_particles(potential: Potential | None, particles: int | None) -> tuple[Potential | None, int]:
    """Return the potential and the number of particles per sample, 1 without a potential.

    Raises:
        TypeError: One of them has the wrong type.
        ValueError: ``particles`` is below 1, or there is no potential for them.
    """
    if potential is None:
        if particles is not None:
            raise ValueError("particles need a potential: write potential=f, with f(x0) the log weight of each row")
        return None, 1
    if not callable(potential):
        raise TypeError(f"potential must be a function of x0 with one number per row, got {type(potential).__name__}")
    return potential, _PARTICLES if particles is None else _check.integer("particles", particles, least=1)
