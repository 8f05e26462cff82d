"""A denoiser on another device than the arithmetic: for devices without float64, and for exact distributions.

Kernels need float64. If a device has none (Apple's mps), states, rates, losses and draws are computed on the CPU, and
only the network runs on the device: each evaluation copies the states there and the prediction back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import States, Time
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.posterior import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


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

    @property
    def uses_time(self) -> bool:
        return self.denoiser.uses_time

    def check(self, process: ForwardProcess) -> None:
        self.denoiser.check(process)


def moved(value: Any, device: torch.device) -> Any:
    """Return tensors, posteriors and patterns on ``device``, where float64 may become float32; the rest as it is.

    Args:
        value: an argument or a result of an objective, a sampler or a reverse process.
        device: where to.
    """
    if isinstance(value, Tensor):
        return _device.moved_to(value, device)
    if isinstance(value, Observed | Posterior):
        return value.to(device)
    return value
