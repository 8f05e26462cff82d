"""What the reversal of a kernel must answer, whatever its structure."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tauleap._shapes import PerSite, PerState
from tauleap.denoise import Posterior


class Reversal(ABC):
    """The formula's arithmetic at given states and time."""

    @abstractmethod
    def reachable(self) -> Tensor | None:
        """From which clean states x can be reached, bool (batch, *shape, S); None where from all."""

    @abstractmethod
    def ratios(self, posterior: Posterior) -> PerState: ...

    @abstractmethod
    def rates(self, posterior: Posterior) -> PerState: ...

    @abstractmethod
    def exit_rate(self, posterior: Posterior) -> PerSite: ...

    @abstractmethod
    def draw_destination(self, posterior: Posterior, chosen: Tensor, generator: torch.Generator | None) -> Tensor: ...
