"""The treatment of the noise that is left at the end of a run, where that is a mask at some sites."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

from tauleap._shapes import States
from tauleap.reverse.at import ReverseAt

Final: TypeAlias = Literal["mode", "sample", "none"]


def fill_masked(at: ReverseAt, final: Final, generator: torch.Generator | None) -> States:
    """Return the states with the masked sites filled; rows without one need no prediction.

    Args:
        at: The reverse process at the last time, whose denoiser need not be evaluated yet.
        final: "mode" fills in the most probable state, and "sample" draws one.
        generator: The source of randomness. Default: that of torch.
    """
    masked = at.x == at.process.mask
    if at.observed is not None:
        masked = masked & ~at.observed.mask
    sites = masked.reshape(-1).nonzero().squeeze(-1)
    if not len(sites):
        return at.x
    posterior = at.posterior
    states = posterior.at(sites).argmax(-1) if final == "mode" else posterior.sample(sites, generator=generator)
    return at.x.reshape(-1).index_copy(0, sites, states).reshape(at.x.shape)
