"""p(x0 | x_t): a law over clean states at each site, as an object, so that nobody wonders what a tensor means."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSite, PerState, SiteMask, States
from tauleap.denoise.log_prob import log_prob


class Posterior:
    """Independent laws over the clean state of each site, from logits (batch, *shape, S), normalised when asked.

    A logit of -inf is a state that cannot be. Half-precision logits are taken as float32.

    >>> posterior = Posterior(torch.tensor([[[0.0, float("-inf"), 0.0]]]))
    >>> posterior.probs
    tensor([[[0.5000, 0.0000, 0.5000]]])
    >>> posterior.mode
    tensor([[0]])
    """

    def __init__(self, logits: PerState) -> None:
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            given = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
            raise TypeError(f"logits must be a floating-point tensor (batch, *shape, S), got {given}")
        # Contiguous, because networks of pictures often return a permuted view, which every use would copy again.
        self.logits = (logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits).contiguous()
        self.over_data_states = False
        """Whether states that data cannot have are known to be out; the reverse process then need not look again."""

    @property
    def shape(self) -> torch.Size:
        """(batch, *shape, S), that of the logits."""
        return self.logits.shape

    @property
    def undefined(self) -> SiteMask:
        """Which sites have no distribution: a logit is NaN or +inf, or all of them are -inf."""
        return ~self.logits.amax(-1).isfinite()

    @property
    def probs(self) -> PerState:
        """p(x0 | x_t)."""
        return self.logits.softmax(-1)

    @property
    def log_probs(self) -> PerState:
        """log p(x0 | x_t)."""
        return self.logits.log_softmax(-1)

    def log_prob(self, x0: States) -> PerSite:
        """log p(x0 | x_t) of one state a site."""
        return log_prob(self.logits, x0)

    @property
    def mode(self) -> States:
        """The most probable state of each site."""
        return self.logits.argmax(-1)

    def sample(self, *, generator: torch.Generator | None = None) -> States:
        """A draw of every site on its own."""
        return _draw.categorical(self.probs, generator)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Posterior:
        """The laws of some of the sites, or of all in another order: ``change`` takes (batch, *shape, n), any n."""
        out = Posterior(change(self.logits))
        out.over_data_states = self.over_data_states
        return out

    def uniform_at(self, sites: SiteMask) -> Posterior:
        """The same laws, but for the given sites, where all states are equally likely."""
        out = Posterior(self.logits.masked_fill(sites[..., None], 0.0))
        out.over_data_states = self.over_data_states
        return out

    def given_reachable(self, reachable: Tensor | None) -> Posterior:
        """Return the distributions given that the noisy state was reached.

        Args:
            reachable: from which x0 it can be, bool (batch, *shape, S); None if from all. A site that cannot be reached
                from any x0 keeps its distribution.
        """
        return self if reachable is None else self.restricted(reachable | ~reachable.any(-1, keepdim=True))

    def restricted(self, allowed: Tensor, *, over_data_states: bool = False) -> Posterior:
        """The same law given that the state is one of ``allowed``, a bool tensor that broadcasts to the logits."""
        out = Posterior(self.logits.masked_fill(~allowed, float("-inf")))
        out.over_data_states = over_data_states or self.over_data_states
        return out
