"""Arithmetic on the CPU for a network elsewhere: for devices without float64, and for laws on enumerable spaces.

Kernels need float64. Where a device has none (Apple's mps), states, rates, losses and draws are computed on the CPU,
and only the network runs on the device: each evaluation sends it the states, and takes back what it predicts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed

if TYPE_CHECKING:
    from tauleap.reverse.process import ReverseProcess

_P = ParamSpec("_P")
_R = TypeVar("_R")


class DenoiserOnDevice(Denoiser):
    """Evaluate a denoiser on its own device, for states on the CPU.

    Args:
        denoiser: the denoiser.
        device: where its weights are.
    """

    def __init__(self, denoiser: Denoiser, device: torch.device) -> None:
        super().__init__()
        self.denoiser, self.device = denoiser, device

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        posterior = self.denoiser(
            x_t.to(self.device),
            t,
            observed=moved(observed, self.device),
            condition=moved(condition, self.device),
        )
        # A wrong type is refused by the reverse process, whose message names the denoiser.
        return moved(posterior, _device.CPU) if isinstance(posterior, Posterior) else posterior


def on_cpu(reverse: ReverseProcess) -> ReverseProcess:
    """Return the reverse process with all arithmetic but the network's on the CPU; itself if it is there.

    Args:
        reverse: a reverse process, anywhere. Its weights stay where they are, and gradients reach them.
    """
    device = device_of(reverse)
    if _device.is_host(device):
        return reverse
    process: ForwardProcess = reverse.process.kept("on the CPU", lambda: copy.deepcopy(reverse.process).to(_device.CPU))
    return type(reverse)(process, DenoiserOnDevice(reverse.denoiser, device)).train(reverse.training)


def in_float64(reverse: ReverseProcess) -> ReverseProcess:
    """Return the reverse process with its arithmetic where float64 is: itself, or on the CPU.

    Args:
        reverse: a reverse process, anywhere.
    """
    return on_cpu(reverse) if lacks_float64(device_of(reverse)) else reverse


def device_of(reverse: ReverseProcess) -> torch.device:
    """Return where the states of a reverse process live: with its weights, or else with its buffers.

    Args:
        reverse: a reverse process.
    """
    if isinstance(reverse.denoiser, DenoiserOnDevice):
        return _device.CPU
    tensors = (*reverse.denoiser.parameters(), *reverse.denoiser.buffers(), *reverse.parameters(), *reverse.buffers())
    return next((tensor.device for tensor in tensors), _device.CPU)


def lacks_float64(device: torch.device) -> bool:
    """Return whether arithmetic for tensors on ``device`` belongs on the CPU.

    Args:
        device: a device of this machine.
    """
    return _device.exact_device(device) != device


def moved(value: Any, device: torch.device) -> Any:
    """Return tensors, posteriors and patterns on ``device``, float64 in the widest dtype there; the rest as it is.

    Args:
        value: an argument or a result of an objective, a sampler or a reverse process.
        device: where to.
    """
    if isinstance(value, Tensor):
        return _device.moved_to(value, device)
    if isinstance(value, Observed):
        return value.to(device)
    if isinstance(value, Posterior):
        return value.rearranged(lambda values: _device.moved_to(values, device))
    return value


def exactly(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compute a method of the reverse process on the CPU where the states' device has no float64.

    Args:
        method: a method whose first argument is states, and whose result can be moved.

    Returns:
        The method, with results where the states are.
    """

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        reverse, x, *_ = *args, *kwargs.values(), None
        if not isinstance(x, Tensor) or not lacks_float64(x.device):
            return method(*args, **kwargs)
        there: Any = method
        rest = [moved(value, _device.CPU) for value in args[1:]]
        named = {name: moved(value, _device.CPU) for name, value in kwargs.items()}
        return moved(there(on_cpu(cast("ReverseProcess", reverse)), *rest, **named), x.device)

    return call
