"""Exponential moving average of the weights, which is used to sample and evaluate, and is saved as the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Ema:
    """Average the weights: ``average = d average + (1 - d) weight`` with ``d = min(decay, (1 + n) / (10 + n))``.

    Early in training d is small, so that the average follows weights that change fast. The averages have the device and
    the sharding of the weights.

    Args:
        parameters: The weights; those without gradients are skipped.
        decay: The largest d, in [0, 1).
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ema, the decay of the average of weights, must be in [0, 1), got {decay}")
        self.decay = decay
        self._parameters: list[Tensor] = [p for p in parameters if p.requires_grad]
        self.averages = [p.detach().clone() for p in self._parameters]
        self._mix, self._mix_decay = get_ema_multi_avg_fn(decay), decay

    def update(self, n: int) -> None:
        """Update the average with the weights after a step.

        Args:
            n: The number of the step, from 1.
        """
        decay = min(self.decay, (1 + n) / (10 + n))
        if decay != self._mix_decay:
            self._mix, self._mix_decay = get_ema_multi_avg_fn(decay), decay
        self._mix(self.averages, self._parameters, n)

    @torch.no_grad()
    def take_weights(self) -> None:
        """Set the average to the current weights."""
        for average, parameter in zip(self.averages, self._parameters, strict=True):
            average.copy_(parameter)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Give the network the averaged weights inside the block, and its own weights back afterwards."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for average, parameter in zip(self.averages, self._parameters, strict=True):
            weight = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(weight)
