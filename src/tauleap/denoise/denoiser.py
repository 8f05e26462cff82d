"""The interface of a denoiser, and the denoiser of a network with logits."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from tauleap._shapes import States, Time
from tauleap.denoise.network_call import NetworkCall
from tauleap.denoise.posterior import Posterior
from tauleap.observed import Observed


class Denoiser(nn.Module, ABC):
    """Predict p(x0 | x_t), the distribution of each site's clean state given the whole noisy state.

    Observed sites hold their clean values in ``x_t``.
    """

    @abstractmethod
    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """Return the distribution of each site's clean state given the whole noisy state.

        Args:
            x_t: The noisy states; observed sites hold their clean values.
            t: The time, one for all samples or one per sample.
            observed: The observed sites. Default: none.
            condition: The input of the network, with one entry per sample along its first axis. Default: none.
        """


class NetworkDenoiser(Denoiser):
    """Use the output of a network as logits: any module called as ``network(x_t, t)`` with t of shape (batch,).

    A network whose ``forward`` takes one argument is called without t. If ``forward`` has a parameter ``observed`` it
    gets the mask of the observed sites or None, and if it has a parameter ``condition`` it gets the condition.

    Args:
        network: The network, which returns one logit per site and state, (batch, *shape, S).

    Raises:
        TypeError: ``network`` is not a torch.nn.Module.

    >>> import torch
    >>> from tauleap.network import ResidualMLP
    >>> denoiser = NetworkDenoiser(ResidualMLP(8, (3,)))
    >>> denoiser(torch.zeros(2, 3, dtype=torch.int64), 0.5).probs.shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._call_network = NetworkCall(network)
        self.network = network

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        return Posterior(self._call_network(self.network, x_t, t, observed, condition))
