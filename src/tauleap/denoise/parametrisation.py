"""The outputs of a network, from which logits follow: the logits themselves, or something that takes less memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device
from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, SiteMask, States
from tauleap.denoise.log_prob import log_prob_of_rows


class Parametrisation(ABC):
    """Hold the outputs of a network for each site, from which the logits follow."""

    shape: torch.Size
    """(batch, *shape, S), that of the logits."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the outputs are."""

    @property
    @abstractmethod
    def logits(self) -> PerState:
        """Unnormalised log-probabilities, computed when they are first needed."""

    @property
    @abstractmethod
    def undefined(self) -> SiteMask:
        """Which sites have no distribution."""

    @abstractmethod
    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        """Return the logits of some sites, given as positions (n,) in the flattened states."""

    def prepare(self, sites: Tensor) -> None:  # noqa: B027 (most parameters need no preparation)
        """Announce that :meth:`at` will be called with these sites, or with parts of them, and with no others."""

    def parts(self, sites: Tensor) -> Iterator[tuple[slice | Tensor, Float[Tensor, "n states"]]]:
        """Yield which of some sites, and the logits of their first states; the others have no probability.

        Sites whose numbers of states are known to differ are in different parts, so that few states need no more memory
        for a site that has many.
        """
        for part in chunks(len(sites), self.shape[-1], sites.device):
            yield part, self.at(sites[part])

    @abstractmethod
    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Parametrisation:
        """Return the parameters of the sites that ``change`` selects from tensors (batch, *shape, n), for any n."""

    @abstractmethod
    def uniform_at(self, sites: SiteMask) -> Parametrisation:
        """Return the same parameters, with equal probabilities at the given sites."""

    def log_prob(self, x0: States, sites: Tensor | None = None, allowed: Tensor | None = None) -> PerSite:
        """Return log p(x0 | x_t) of one state per site.

        Args:
            x0: the states, one per site or one per entry of ``sites``.
            sites: positions in the flattened states. Default: all.
            allowed: the states (S,) that have a probability. Default: all.
        """
        rows = self.logits.reshape(-1, self.shape[-1]) if sites is None else self.at(sites)
        return log_prob_of_rows(rows, x0.reshape(-1), allowed=allowed).view(x0.shape)

    def to(self, device: torch.device) -> Parametrisation:
        """Return the parameters with results on another device; float64 becomes float32 if the device lacks it."""
        return self.rearranged(lambda values: _device.moved_to(values, device))
