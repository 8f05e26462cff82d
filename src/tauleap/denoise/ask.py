"""Asking a network: it gets what its ``forward`` takes, and nothing that it would ignore."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tauleap._shapes import States, Time
from tauleap.network.arguments import Arguments
from tauleap.observed import Observed


class Asker:
    """Calls ``network(x_t, t)`` with t of shape (batch,), and ``observed`` and ``condition`` where it takes them."""

    def __init__(self, network: nn.Module) -> None:
        if not isinstance(network, nn.Module):
            raise TypeError(f"network must be a torch.nn.Module, got {type(network).__name__}")
        self._arguments = Arguments(network)

    def __call__(
        self, network: nn.Module, x_t: States, t: Time, observed: Observed | None, condition: Tensor | None
    ) -> Tensor:
        """What the network says."""
        arguments = self._arguments.of(None if observed is None else observed.mask, condition)
        out = network(x_t, _one_a_sample(t, x_t, network), **arguments)
        if not isinstance(out, Tensor) or out.ndim != x_t.ndim + 1 or out.shape[:-1] != x_t.shape:
            given = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(
                f"the network must answer with one axis behind the shape of x_t, {tuple(x_t.shape)}, got {given}"
            )
        return out


def _one_a_sample(t: Time, x_t: Tensor, network: nn.Module) -> Tensor:
    """t as (batch,), in the dtype of the network's parameters, but never in half precision, which blurs times."""
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.get_default_dtype())
    dtype = torch.promote_types(dtype, torch.float32)
    return torch.as_tensor(t, dtype=dtype).to(x_t.device).expand(x_t.shape[0])
