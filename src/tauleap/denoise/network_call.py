"""Asking a network: it gets what its ``forward`` takes, and nothing that it would ignore."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tauleap import _device
from tauleap._shapes import States, Time
from tauleap.network.arguments import Arguments
from tauleap.observed import Observed


class NetworkCall:
    """Calls ``network(x_t, t)`` with t of shape (batch,); t, ``observed`` and ``condition`` where it takes them.

    Args:
        network: the network.
        numbers: how many numbers it returns per site, for messages. Default: "S", the number of states.
    """

    def __init__(self, network: nn.Module, numbers: str = "S") -> None:
        if not isinstance(network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module, got {type(network).__name__}")
        self._arguments = Arguments(network)
        self._numbers = numbers

    def __call__(
        self, network: nn.Module, x_t: States, t: Time, observed: Observed | None, condition: Tensor | None
    ) -> Tensor:
        """What the network says."""
        mask = None if observed is None else observed.mask
        out = self._arguments.call(network, x_t, _time_per_sample(t, x_t, network), mask, condition)
        if not isinstance(out, Tensor) or out.ndim != x_t.ndim + 1 or out.shape[:-1] != x_t.shape:
            given = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(
                f"the network must return a tensor of shape (B, *shape, {self._numbers}) = "
                f"({', '.join(map(str, x_t.shape))}, {self._numbers}), got {given}"
            )
        return out


def _time_per_sample(t: Time, x_t: Tensor, network: nn.Module) -> Tensor:
    """t as (batch,), in the dtype of the network's parameters, but never in half precision, which blurs times."""
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.get_default_dtype())
    dtype = torch.promote_types(dtype, torch.float32)
    if not isinstance(t, Tensor):
        return torch.full((), t, dtype=dtype, device=x_t.device).expand(x_t.shape[0])
    t = t.to(dtype) if t.device == x_t.device else _device.moved_to(t, x_t.device, dtype)
    return t.expand(x_t.shape[0])
