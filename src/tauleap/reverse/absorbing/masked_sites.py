"""The masked sites of a batch, as positions."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import PerSite, SiteMask, States


class MaskedSites:
    """Find the masked sites of a batch.

    Args:
        x: The states.
        mask: The state that is the mask.
    """

    def __init__(self, x: States, mask: int) -> None:
        self.mask: SiteMask = x == mask
        self._found: tuple[SiteMask | None, Tensor] | None = None

    def positions(self, scored: SiteMask | None = None) -> Tensor:
        """Return the positions of the masked sites in ``x.flatten()``, int64 (n,). The host waits for their number.

        Args:
            scored: Sites to which they are limited. Default: all. The last answer is kept, for several losses of one
                batch.
        """
        if self._found is None or self._found[0] is not scored:
            chosen = self.mask if scored is None else self.mask & scored
            self._found = scored, chosen.reshape(-1).nonzero().squeeze(-1)
        return self._found[1]

    def spread(self, values: Tensor, sites: Tensor) -> PerSite:
        """Return the values of some sites as one number per site, 0 elsewhere.

        Args:
            values: One number per entry of ``sites``.
            sites: Positions.
        """
        out = torch.zeros(self.mask.numel(), dtype=values.dtype, device=values.device)
        return out.index_copy(0, sites, values).view(self.mask.shape)
