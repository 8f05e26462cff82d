"""Shared parts of the tests on simulated devices: a small network, data, and the comparison with the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from tauleap import Observed, ReverseProcess, _device
from tauleap.denoise import NetworkDenoiser
from tauleap.noise import ForwardProcess

SITES = 2


class Network(nn.Module):
    """A network whose logits depend on every site, the time, the observed sites and a condition."""

    def __init__(self, num_states: int, outputs: int | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.inside, self.outside = nn.Linear(SITES + 1, 8), nn.Linear(8, SITES * (outputs or num_states))

    def forward(
        self, x: Tensor, t: Tensor, *, observed: Tensor | None = None, condition: Tensor | None = None
    ) -> Tensor:
        flat = x.reshape(len(x), -1).to(self.inside.weight.dtype)
        hidden = self.inside(torch.cat([flat, t[:, None]], 1)).tanh()
        if condition is not None:
            hidden = hidden + condition[:, None]
        if observed is not None:
            hidden = hidden * (1 + observed.reshape(len(x), -1).sum(1, keepdim=True))
        return self.outside(hidden).reshape(*x.shape, -1)


def model(process: ForwardProcess) -> ReverseProcess:
    return ReverseProcess(process, NetworkDenoiser(Network(process.num_states)))


def data(process: ForwardProcess, rows: int = 6) -> Tensor:
    allowed = process.data_states.expand(SITES, -1).double()
    return torch.multinomial(allowed, rows, replacement=True, generator=torch.Generator().manual_seed(1)).T.contiguous()


def move(value: Any, device: torch.device) -> Any:
    """Move modules, tensors and patterns to ``device``, and return anything else unchanged."""
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, Observed):
        return Observed(value.mask.to(device), value.values.to(device))
    return value.to(device) if isinstance(value, Tensor) else value


def on_both(
    function: Callable[..., Any], device: torch.device, *values: Any, seed: int | None = 0, **named: Any
) -> tuple[Any, Any]:
    """Return the results of ``function`` on the CPU and on ``device``, with arguments and generators on each."""
    out = []
    for where in (_device.CPU, device):
        generator = {} if seed is None else {"generator": _device.new_generator(where, seed)}
        moved = {name: move(value, where) for name, value in named.items()}
        out.append(function(*(move(value, where) for value in values), **moved, **generator))
    return out[0], out[1]


def assert_same(here: Any, there: Any, device: torch.device) -> None:
    """Check that values on ``device`` are on it, and equal to those on the CPU to float32 precision."""
    exact = _device.has_float64(device)
    for ours, theirs in zip(pytree.tree_leaves(here), pytree.tree_leaves(there), strict=True):
        if isinstance(ours, Tensor):
            assert theirs.device == device, f"a result is on {theirs.device}"
            theirs = theirs.detach().cpu()
            if ours.is_floating_point():
                tolerance = {"rtol": 1e-5, "atol": 1e-7} if exact else {"rtol": 1e-4, "atol": 1e-5}
                assert_close(theirs.to(ours.dtype), ours.detach(), **tolerance)
            else:
                assert_close(theirs, ours)
        else:
            assert theirs == ours
