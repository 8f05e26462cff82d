"""Jumps out of the mask: which sites move is drawn without a prediction, and where to from the prediction there."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._chunks import chunks
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.reverse.base import OutgoingJumps


class AbsorbingJumps(OutgoingJumps):
    """Draw jumps of masked sites.

    Args:
        x: The states.
        leaving: The rate or probability to leave the mask, float64 and 0 at sites that are not masked.
        posterior: p(x0 | x) over the data states.
    """

    def __init__(self, x: States, leaving: PerSite, posterior: Posterior) -> None:
        self.x, self._leaving, self._posterior = x, leaving, posterior

    @cached_property
    def exit_rate(self) -> PerSite:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not torch.is_grad_enabled():
            return self._leaving
        # A sum of no logits is 0 and has their graph: the rate depends on them only in that its gradient is 0.
        nothing = self._posterior.at(torch.empty(0, dtype=torch.int64, device=self.x.device)).sum()
        return self._leaving.to(nothing.dtype) + nothing

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        if not len(chosen):
            return chosen.clone()
        self._posterior.prepare(chosen)
        out = torch.empty_like(chosen)
        for part in chunks(len(chosen), self._posterior.shape[-1], chosen.device):
            probs = self._posterior.at(chosen[part]).to(torch.float64).softmax(-1)
            out[part] = _draw.categorical(probs, generator)
        return out
