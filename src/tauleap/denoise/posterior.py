"""p(x0 | x_t): a distribution over clean states at each site, as an object, so that its meaning is never in doubt."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSite, PerState, SiteMask, States
from tauleap.denoise.lazy import Restricted
from tauleap.denoise.log_prob import log_prob_of_rows
from tauleap.denoise.parametrisation import Parametrisation


class Logits(Parametrisation):
    """Hold one logit per site and state."""

    def __init__(self, logits: PerState) -> None:
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            given = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
            raise TypeError(f"logits must be a floating-point tensor (batch, *shape, S), got {given}")
        # Contiguous, because networks of images often return a permuted view, which every use would copy again.
        self._logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).contiguous()
        self.shape = logits.shape

    @property
    def device(self) -> torch.device:
        return self._logits.device

    @property
    def logits(self) -> PerState:
        return self._logits

    @property
    def undefined(self) -> SiteMask:
        return ~self._logits.amax(-1).isfinite()

    def log_prob(self, x0: States, sites: Tensor | None = None, allowed: Tensor | None = None) -> PerSite:
        rows = self._logits.reshape(-1, self.shape[-1])
        return log_prob_of_rows(rows, x0.reshape(-1), sites, allowed).view(x0.shape)

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        return self._logits.reshape(-1, self.shape[-1]).index_select(0, sites)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Logits:
        return Logits(change(self.logits))

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

    def log_prob(self, x0: States, sites: Tensor | None = None) -> PerSite:
        """Return log p(x0 | x_t) of one state per site.

        Args:
            x0: the states, one per site or one per entry of ``sites``.
            sites: positions in the flattened states, int64 (n,): nothing is computed for the others. Default: all.
        """
        return self.parametrisation.log_prob(x0, sites)

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        """Return the unnormalised log-probabilities of some sites; nothing is computed for the others.

        Args:
            sites: positions in the flattened states, int64 (n,).
        """
        return self.parametrisation.at(sites)

    def prepare(self, sites: Tensor) -> None:
        """Announce the sites of all further calls of :meth:`at`, so that what they need is evaluated together.

        Args:
            sites: positions in the flattened states, int64 (n,).
        """
        self.parametrisation.prepare(sites)

    @property
    def mode(self) -> States:
        """The most probable state of each site."""
        return self.logits.argmax(-1)

    def sample(self, sites: Tensor | None = None, *, generator: torch.Generator | None = None) -> States:
        """Return a draw of every site on its own.

        Args:
            sites: positions in the flattened states, int64 (n,): nothing is computed for the others. Default: all.
            generator: the source of randomness. Default: that of PyTorch.
        """
        if sites is None:
            return _draw.categorical(self.probs, generator)
        self.prepare(sites)
        out = torch.empty_like(sites)
        for part, logits in self.parametrisation.parts(sites):
            out[part] = _draw.categorical(logits.to(torch.float64).softmax(-1), generator)
        return out

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
        """Return the distributions without the x0 from which the noisy state cannot be reached.

        Args:
            reachable: from which x0 it can be, bool (batch, *shape, S); None if from all. A site that cannot be reached
                from any x0 keeps its distribution.
        """
        return self if reachable is None else self.restricted(reachable | ~reachable.any(-1, keepdim=True))

    def restricted(self, allowed: Tensor, *, over_data_states: bool = False) -> Posterior:
        """Return the distributions given that the state is one of ``allowed``.

        Args:
            allowed: a bool tensor that broadcasts to the logits.
            over_data_states: whether this excludes all states that data cannot have. Default: False.
        """
        restricted = Restricted(self.parametrisation, allowed)
        return Posterior(restricted, over_data_states=over_data_states or self.over_data_states)

    def to(self, device: torch.device) -> Posterior:
        """Return the distributions with results on another device; float64 becomes float32 if the device lacks it.

        Args:
            device: the device of the results. Logits that are not computed yet are computed where they are.
        """
        return Posterior(self.parametrisation.to(device), over_data_states=self.over_data_states)
