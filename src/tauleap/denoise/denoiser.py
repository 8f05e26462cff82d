"""What turns a noisy state into a guess of the clean one."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from tauleap._shapes import States, Time
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

    If its ``forward`` has a parameter ``observed`` it is also told which sites are given, as a bool mask or None, and
    if it has a parameter ``condition`` it gets the condition, untouched.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module, got {type(network).__name__}")
        self.network = network
        self._accepted = _accepted_arguments(network)

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        logits = self.raw(x_t, t, observed=observed, condition=condition)
        if logits.ndim != x_t.ndim + 1 or logits.shape[:-1] != x_t.shape:
            raise ValueError(
                f"the network must give logits of shape (batch, *shape, S), {tuple(x_t.shape)} and S behind it, "
                f"got {tuple(logits.shape)}"
            )
        return Posterior(logits)

    def raw(self, x_t: States, t: Time, *, observed: Observed | None, condition: Tensor | None) -> Tensor:
        """What the network says, given what it asks for."""
        arguments: dict[str, Tensor | None] = {}
        if "observed" in self._accepted:
            arguments["observed"] = None if observed is None else observed.mask
        if "condition" in self._accepted:
            arguments["condition"] = condition
        elif condition is not None:
            raise TypeError(
                f"{type(self.network).__name__} takes no condition: "
                "give its forward a parameter `condition`, or leave condition out"
            )
        return self.network(x_t, _one_a_sample(t, x_t, self.network), **arguments)


def _accepted_arguments(network: nn.Module) -> frozenset[str]:
    parameters = inspect.signature(network.forward).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return frozenset({"observed", "condition"})
    return frozenset({"observed", "condition"} & parameters.keys())


def _one_a_sample(t: Time, x_t: Tensor, network: nn.Module) -> Tensor:
    """t as (batch,), in the dtype of the network's parameters."""
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.get_default_dtype())
    times = torch.as_tensor(t).to(dtype).to(x_t.device)
    return times.expand(x_t.shape[0])
