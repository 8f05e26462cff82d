"""p(x0 | x_t): a distribution over clean states at each site, as an object, so that its meaning is never in doubt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap import _draw
from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, SiteMask, States


class Parametrisation(ABC):
    """Hold the outputs of a network for each site, from which the logits follow: the logits themselves, or fewer
    numbers."""

    shape: torch.Size
    """(batch, *shape, S), that of the logits."""

    @property
    @abstractmethod
    def logits(self) -> PerState:
        """Unnormalised log-probabilities, computed when they are first needed."""

    @property
    @abstractmethod
    def undefined(self) -> SiteMask:
        """Which sites have no distribution."""

    @abstractmethod
    def log_prob(self, x0: States) -> PerSite:
        """Return log p(x0 | x_t) of one state per site."""

    @abstractmethod
    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        """Return the logits of some sites, given as positions (n,) in the flattened states."""

    @abstractmethod
    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Parametrisation:
        """Return the parameters of some of the sites; ``change`` takes (batch, *shape, n) for any n."""

    @abstractmethod
    def uniform_at(self, sites: SiteMask) -> Parametrisation:
        """Return the same parameters, with equal probabilities at the given sites."""


class Logits(Parametrisation):
    """One logit per site and state."""

    def __init__(self, logits: PerState) -> None:
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            given = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
            raise TypeError(f"logits must be a floating-point tensor (batch, *shape, S), got {given}")
        # Contiguous, because networks of images often return a permuted view, which every use would copy again.
        self._logits = (logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits).contiguous()
        self.shape = logits.shape

    @property
    def logits(self) -> PerState:
        return self._logits

    @property
    def undefined(self) -> SiteMask:
        return ~self._logits.amax(-1).isfinite()

    def log_prob(self, x0: States) -> PerSite:
        return log_prob(self._logits, x0)

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        return self._logits.reshape(-1, self._logits.shape[-1]).index_select(0, sites)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Logits:
        return Logits(change(self._logits))

    def uniform_at(self, sites: SiteMask) -> Logits:
        return Logits(self._logits.masked_fill(sites[..., None], 0.0))


class Posterior:
    """Hold independent distributions over the clean state of each site, normalised when they are needed.

    Args:
        logits: unnormalised log-probabilities, or a :class:`Parametrisation` that computes them. A logit of -inf is a
            state of probability 0. Half-precision logits are converted to float32.
        over_data_states: whether states that data cannot have are already excluded. Default: False.

    >>> posterior = Posterior(torch.tensor([[[0.0, float("-inf"), 0.0]]]))
    >>> posterior.probs
    tensor([[[0.5000, 0.0000, 0.5000]]])
    >>> posterior.mode
    tensor([[0]])
    """

    def __init__(self, logits: PerState | Parametrisation, *, over_data_states: bool = False) -> None:
        self.parametrisation = logits if isinstance(logits, Parametrisation) else Logits(logits)
        self.over_data_states = over_data_states
        self.shape = self.parametrisation.shape
        """(batch, *shape, S), that of the logits."""

    @property
    def logits(self) -> PerState:
        """Unnormalised log-probabilities."""
        return self.parametrisation.logits

    @property
    def undefined(self) -> SiteMask:
        """Which sites have no distribution: a logit is NaN or +inf, or all of them are -inf."""
        return self.parametrisation.undefined

    @property
    def probs(self) -> PerState:
        """p(x0 | x_t)."""
        return self.logits.softmax(-1)

    @property
    def log_probs(self) -> PerState:
        """log p(x0 | x_t)."""
        return self.logits.log_softmax(-1)

    def log_prob(self, x0: States) -> PerSite:
        """Return log p(x0 | x_t) of one state per site.

        Args:
            x0: the states.
        """
        return self.parametrisation.log_prob(x0)

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        """Return the unnormalised log-probabilities of some sites.

        Args:
            sites: positions in the flattened states, int64 (n,).
        """
        return self.parametrisation.at(sites)

    @property
    def mode(self) -> States:
        """The most probable state of each site."""
        return self.logits.argmax(-1)

    def sample(self, *, generator: torch.Generator | None = None) -> States:
        """Return a draw of every site on its own.

        Args:
            generator: the source of randomness. Default: that of PyTorch.
        """
        return _draw.categorical(self.probs, generator)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Posterior:
        """Return the distributions of some of the sites, or of all in another order.

        Args:
            change: takes and returns tensors (batch, *shape, n), for any n.
        """
        return Posterior(self.parametrisation.rearranged(change), over_data_states=self.over_data_states)

    def uniform_at(self, sites: SiteMask) -> Posterior:
        """Return the same distributions, with equal probabilities at the given sites.

        Args:
            sites: a bool mask.
        """
        return Posterior(self.parametrisation.uniform_at(sites), over_data_states=self.over_data_states)

    def given_reachable(self, reachable: Tensor | None) -> Posterior:
        """Return the distributions given that the noisy state was reached.

        Args:
            reachable: from which x0 it can be, bool (batch, *shape, S); None if from all. A site that cannot be reached
                from any x0 keeps its distribution.
        """
        return self if reachable is None else self.restricted(reachable | ~reachable.any(-1, keepdim=True))

    def restricted(self, allowed: Tensor, *, over_data_states: bool = False) -> Posterior:
        """Return the distributions given that the state is one of ``allowed``.

        Args:
            allowed: a bool tensor that broadcasts to the logits.
            over_data_states: whether this excludes all states that data cannot have.
        """
        logits = self.logits.masked_fill(~allowed, float("-inf"))
        return Posterior(logits, over_data_states=over_data_states or self.over_data_states)


def log_prob(logits: PerState, x0: States) -> PerSite:
    """Return ``logits.log_softmax(-1)`` at the states x0, without keeping a tensor of that size for the gradient.

    >>> log_prob(torch.zeros(1, 4), torch.tensor([2]))
    tensor([-1.3863])
    """
    return _LogProb.apply(logits.reshape(-1, logits.shape[-1]), x0.reshape(-1)).view(x0.shape)


class _LogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor) -> Tensor:
        total = logits.new_empty(len(logits))
        for part in chunks(len(logits), logits.shape[-1], logits.device):
            torch.logsumexp(logits[part], -1, out=total[part])
        ctx.save_for_backward(logits, x0, total)
        return logits.gather(-1, x0[:, None]).squeeze(-1).sub_(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        logits, x0, total = ctx.saved_tensors
        out = torch.empty_like(logits)
        for part in chunks(len(logits), logits.shape[-1], logits.device):
            torch.sub(logits[part], total[part, None], out=out[part]).exp_().mul_(-gradient[part, None])
        return out.scatter_add_(-1, x0[:, None], gradient[:, None]), None
