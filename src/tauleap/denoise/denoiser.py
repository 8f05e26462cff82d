"""What turns a noisy state into a guess of the clean one."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from tauleap._shapes import States, Time
from tauleap.denoise.network_call import NetworkCall
from tauleap.denoise.posterior import Posterior
from tauleap.observed import Observed


class Denoiser(nn.Module, ABC):
    """(x_t, t) -> p(x0 | x_t). Sites that ``observed`` marks hold their clean values in ``x_t`` already."""

    @abstractmethod
    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """The law of each site's clean state given the whole noisy state."""


class NetworkDenoiser(Denoiser):
    """A network whose output is the logits: any module called as ``network(x_t, t)`` with t of shape (batch,).

    A network whose ``forward`` takes one argument is called without t. If ``forward`` has a parameter ``observed`` it
    gets the given sites, as a bool mask or None, and if it has a parameter ``condition`` it gets the condition.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._call_network = NetworkCall(network)
        self.network = network

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        return Posterior(self._call_network(self.network, x_t, t, observed, condition))
