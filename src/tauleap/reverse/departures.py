"""Jumps out of given states: how fast each site leaves, and where to, drawn on demand.

A step of a sampler asks for the exit rates of all sites and for the destinations of those that jump. What the two have
in common is worked out once here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import PerSite, States, Time
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class Departures(ABC):
    """Of states x at one time, or one time a sample, with a given posterior."""

    @property
    @abstractmethod
    def exit_rate(self) -> PerSite:
        """The sum of a site's rates."""

    @abstractmethod
    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Where the sites at the given positions of ``x.flatten()`` jump to, (n,); a position may come more than once.

        They must be sites whose exit rate is not 0.
        """


class Corrected(Departures):
    """With the forward jumps as well: R_c = R + Rhat."""

    def __init__(self, backward: Departures, process: ForwardProcess, x: States, t: Time) -> None:
        self.backward, self.process, self.x = backward, process, x
        self.forward = process.exit_rate(x, t, dtype=backward.exit_rate.dtype)

    @property
    def exit_rate(self) -> PerSite:
        return self.backward.exit_rate + self.forward

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        forward = self.forward.reshape(-1)[chosen].to(torch.float64)
        total = forward + self.backward.exit_rate.reshape(-1)[chosen].to(torch.float64)
        noises = _draw.uniforms(chosen.shape, self.x.device, generator) * total < forward
        # Those that jump with the noise first: to know how many there are is the only look at the device.
        order, number = noises.argsort(descending=True, stable=True), int(noises.sum())
        forwards, backwards = order[:number], order[number:]
        out = torch.empty_like(chosen)
        out[forwards] = self.process.draw_jump(self.x, chosen[forwards], generator=generator)
        out[backwards] = self.backward.draw(chosen[backwards], generator)
        return out


class Free(Departures):
    """Only of the sites that are not observed."""

    def __init__(self, departures: Departures, observed: Observed) -> None:
        self.departures, self.observed = departures, observed

    @property
    def exit_rate(self) -> PerSite:
        return self.departures.exit_rate.masked_fill(self.observed.mask, 0.0)

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        return self.departures.draw(chosen, generator)


def exit_rates(departures: Departures) -> PerSite:
    """Refuses those that are nan: else no site would ever jump there, and nobody would hear of it. On the CPU only."""
    exits = departures.exit_rate
    check_rates(exits)
    return exits


def check_rates(exits: Tensor) -> None:
    if _device.is_host(exits.device) and bool(exits.isnan().any()):
        raise ValueError(
            "the denoiser's posterior gives rates that are nan: its logits are nan, or -inf for every clean state from "
            "which x can come; let it give a finite logit to each state that data can have"
        )


def positions(sites: Tensor, x: States) -> Tensor:
    """``sites``, a bool mask or positions, as int64 positions in ``x.flatten()``."""
    if not isinstance(sites, Tensor) or sites.dtype not in (torch.bool, torch.int64):
        given = sites.dtype if isinstance(sites, Tensor) else type(sites).__name__
        raise TypeError(f"sites must be a bool mask (batch, *shape) or int64 positions in x.flatten(), got {given}")
    if sites.dtype == torch.int64:
        _check.positions(sites, x)
        return sites
    if sites.shape != x.shape:
        raise ValueError(f"a mask of sites must have the shape of x, {tuple(x.shape)}, got {tuple(sites.shape)}")
    return sites.reshape(-1).nonzero().squeeze(-1)
