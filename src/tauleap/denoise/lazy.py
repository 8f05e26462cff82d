"""Parametrisations whose logits are computed site by site, and only for the sites in use."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tauleap import _device
from tauleap._shapes import PerSite, PerState, SiteMask, States
from tauleap.denoise.parametrisation import Parametrisation


class Lazy(Parametrisation):
    """Compute logits for any sites; a subclass defines :meth:`rows`."""

    _logits: PerState | None = None
    _with_graph = False

    @abstractmethod
    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        """Return the logits of some sites, or of all for None; the caller must not change them."""

    @property
    def logits(self) -> PerState:
        if self._logits is None or not self._is_usable:
            self._logits, self._with_graph = self.rows(None).reshape(self.shape), torch.is_grad_enabled()
        return self._logits

    @property
    def _is_usable(self) -> bool:
        """Whether logits that were computed before may serve: those without a graph do not where one is needed."""
        return self._with_graph or not torch.is_grad_enabled()

    @property
    def undefined(self) -> SiteMask:
        return ~self.logits.amax(-1).isfinite()

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        if self._logits is None or not self._is_usable:
            return self.rows(sites)
        return self._logits.reshape(-1, self.shape[-1]).index_select(0, sites)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Parametrisation:
        return Rearranged(self, change)

    def uniform_at(self, sites: SiteMask) -> Parametrisation:
        flat = sites.reshape(-1, 1)

        def uniform(rows: Tensor, chosen: Tensor | None) -> Tensor:
            return rows.masked_fill(flat if chosen is None else flat.index_select(0, chosen), 0.0)

        return Mapped(self, uniform)

    def to(self, device: torch.device) -> Parametrisation:
        return self if device == self.device else Moved(self, device)


class HiddenStates(Lazy):
    """Hold the hidden state of each site, from which the head of a network computes logits.

    Args:
        hidden: The hidden states.
        x: The noisy states.
        head: Returns the logits of n sites, given their hidden states (n, width) and noisy states (n,).
    """

    def __init__(
        self,
        hidden: Float[Tensor, "batch *shape width"],
        x: States,
        head: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        self.hidden, self.x, self._head = hidden, x, head
        with torch.no_grad():
            states = self._evaluated(hidden.reshape(-1, hidden.shape[-1])[:0], x.reshape(-1)[:0]).shape[-1]
        self.shape = torch.Size((*x.shape, states))

    @property
    def device(self) -> torch.device:
        return self.hidden.device

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        hidden, x = self.hidden.reshape(-1, self.hidden.shape[-1]), self.x.reshape(-1)
        if sites is not None:
            hidden, x = hidden.index_select(0, sites), x.index_select(0, sites)
        return self._evaluated(hidden, x)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> HiddenStates:
        return HiddenStates(change(self.hidden), change(self.x[..., None]).squeeze(-1), self._head)

    def _evaluated(self, hidden: Tensor, x: Tensor) -> Tensor:
        out = self._head(hidden, x)
        if not isinstance(out, Tensor) or not out.is_floating_point() or out.ndim != 2 or len(out) != len(x):
            given = f"{out.dtype} of shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise ValueError(
                f"head(hidden, x) of the network must return logits (n, S) for n = {len(x)} sites, got {given}"
            )
        return out.to(torch.promote_types(out.dtype, torch.float32))


class Mapped(Lazy):
    """Change the logits of each site by a function.

    Args:
        base: The parameters.
        change: Takes logits (n, S) and the positions (n,) of their sites, None for all, and returns other logits.
    """

    def __init__(self, base: Parametrisation, change: Callable[[Tensor, Tensor | None], Tensor]) -> None:
        self._base, self._change, self.shape = base, change, base.shape

    @property
    def device(self) -> torch.device:
        return self._base.device

    def prepare(self, sites: Tensor) -> None:
        self._base.prepare(sites)

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        rows = self._base.logits.reshape(-1, self.shape[-1]) if sites is None else self._base.at(sites)
        return self._change(rows, sites)


class Restricted(Lazy):
    """Exclude states.

    Args:
        base: The parameters.
        allowed: The other states, a bool tensor that broadcasts to the logits.
    """

    def __init__(self, base: Parametrisation, allowed: Bool[Tensor, ...]) -> None:
        self._base: Parametrisation | None = base
        self._allowed, self.shape, self._device = allowed, base.shape, base.device

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def logits(self) -> PerState:
        out = super().logits
        if self._with_graph:
            self._base = None  # its logits are not needed any more, and their memory serves what follows
        return out

    def prepare(self, sites: Tensor) -> None:
        if self._base is not None:
            self._base.prepare(sites)

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        if self._base is None:
            rows = self.logits.reshape(-1, self.shape[-1])
            return rows if sites is None else rows.index_select(0, sites)
        if sites is None:
            return self._base.logits.masked_fill(~self._allowed, float("-inf")).reshape(-1, self.shape[-1])
        return self._base.at(sites).masked_fill(~self._allowed_at(sites), float("-inf"))

    def log_prob(self, x0: States, sites: Tensor | None = None, allowed: Tensor | None = None) -> PerSite:
        if self._base is None or self._allowed.ndim > 1:
            return super().log_prob(x0, sites, allowed)
        return self._base.log_prob(x0, sites, self._allowed if allowed is None else self._allowed & allowed)

    def _allowed_at(self, sites: Tensor) -> Tensor:
        allowed = self._allowed
        if allowed.ndim == 1:
            return allowed
        allowed = allowed.expand(*self.shape[len(self.shape) - allowed.ndim : -1], allowed.shape[-1])
        rows = allowed.reshape(-1, allowed.shape[-1])
        return rows.index_select(0, sites % len(rows) if allowed.ndim < len(self.shape) else sites)


class Rearranged(Lazy):
    """Select or reorder the sites of another parametrisation.

    Args:
        base: The parameters.
        change: Takes (batch, *shape, n) for any n, and returns the selected sites.
    """

    def __init__(self, base: Parametrisation, change: Callable[[Tensor], Tensor]) -> None:
        places = torch.arange(base.shape[:-1].numel(), device=base.device).reshape(*base.shape[:-1], 1)
        places = change(places)
        self._base, self._places = base, places.reshape(-1)
        self.shape = torch.Size((*places.shape[:-1], base.shape[-1]))

    @property
    def device(self) -> torch.device:
        return self._base.device

    def prepare(self, sites: Tensor) -> None:
        self._base.prepare(self._places.index_select(0, sites))

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        return self._base.at(self._places if sites is None else self._places.index_select(0, sites))


class Moved(Lazy):
    """Compute logits on their device, and move them.

    Args:
        base: The parameters.
        device: The device of the results.
    """

    def __init__(self, base: Parametrisation, device: torch.device) -> None:
        self._base, self._device, self.shape = base, device, base.shape

    @property
    def device(self) -> torch.device:
        return self._device

    def prepare(self, sites: Tensor) -> None:
        self._base.prepare(_device.moved_to(sites, self._base.device))

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        if sites is None:
            rows = self._base.logits.reshape(-1, self.shape[-1])
        else:
            rows = self._base.at(_device.moved_to(sites, self._base.device))
        return _device.moved_to(rows, self._device)
