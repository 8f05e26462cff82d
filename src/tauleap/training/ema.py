"""The moving average of the weights: what is sampled, evaluated and published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Ema:
    """average <- d average + (1 - d) weight after each step, with ``d = min(decay, (1 + n) / (10 + n))`` at the n-th.

    The ramp lets the average follow while the weights still change fast. Only the weights are held a second time, in
    the places and parts in which they are trained, so this works for sharded ones too.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"the decay of the moving average must lie in [0, 1), got {decay}")
        self.decay = decay
        self._parameters: list[Tensor] = [p for p in parameters if p.requires_grad]
        self.averages = [p.detach().clone() for p in self._parameters]
        self._mix, self._mix_decay = get_ema_multi_avg_fn(decay), decay

    def update(self, n: int) -> None:
        """Takes in the weights after the n-th step, counted from 1."""
        decay = min(self.decay, (1 + n) / (10 + n))
        if decay != self._mix_decay:
            self._mix, self._mix_decay = get_ema_multi_avg_fn(decay), decay
        self._mix(self.averages, self._parameters, n)

    @torch.no_grad()
    def take_weights(self) -> None:
        """Makes the weights as they are the average."""
        for average, parameter in zip(self.averages, self._parameters, strict=True):
            average.copy_(parameter)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside the block the network has the averaged weights; afterwards its own again, bit for bit."""
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
