"""What the reversal of a kernel must answer, whatever its structure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from torch import Tensor

from tauleap._shapes import PerState
from tauleap.denoise import Posterior
from tauleap.noise import Kernel
from tauleap.reverse.departures import Departures
from tauleap.reverse.mixture import Mixture


class Reversal(ABC):
    """The formula's arithmetic at given states and time."""

    @abstractmethod
    def reachable(self) -> Tensor | None:
        """From which clean states x can be reached, bool (batch, *shape, S); None where from all."""

    @abstractmethod
    def jumps(self) -> Mixture:
        """Rhat as a function of p."""

    @abstractmethod
    def step(self, earlier: Kernel, between: Kernel) -> Mixture:
        """p(x_s | x) as a function of p, for the kernels q_s|0 and q_t|s of a time s before t."""

    @final
    def rates(self, posterior: Posterior) -> PerState:
        """Rhat."""
        return self.jumps().mixed(posterior)

    @abstractmethod
    def ratios(self, posterior: Posterior) -> PerState:
        """s_v(x), in the dtype of the logits: in float32 a ratio beyond its range is inf, though no rate is."""

    @abstractmethod
    def departures(self, posterior: Posterior) -> Departures:
        """Exit rates, and draws of destinations."""

    @abstractmethod
    def step_departures(self, earlier: Kernel, between: Kernel, posterior: Posterior) -> Departures:
        """The same of a step to the time of ``earlier``: the probability to leave x, and draws of where to."""
