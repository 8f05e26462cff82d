"""What the formula comes to for ``q = alpha I + (1 - alpha) 1 pi^T``, in O(S) a site:

    Rhat(v) = beta [ alpha / (1 - alpha) p(v) + (1 - p(x) + p(x) kappa) pi_v ],
    kappa   = (1 - alpha) pi_x / (alpha + (1 - alpha) pi_x),

with beta the schedule's rate times the process' speed; the ratios are these without beta, over pi_x.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import PerState, States
from tauleap.denoise import Posterior
from tauleap.noise import Kernel, RankOneKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.departures import Departures
from tauleap.reverse.mixture import Mixture
from tauleap.reverse.rank_one_departures import RankOneDepartures, of_rates, of_step
from tauleap.reverse.rank_one_mixture import RankOneMixture, Shares
from tauleap.reverse.reversal import Reversal

_LARGEST_IN_FLOAT32 = 1e30  # a factor beyond it, times a small probability, needs float64


class RankOneReversal(Reversal):
    """O(S) a site: the rates are a multiple of p plus a multiple of pi."""

    def __init__(self, beta: Tensor, kernel: RankOneKernel, x: States) -> None:
        self.beta, self.kernel, self.x = beta, kernel, x

    @cached_property
    def own_law(self) -> Tensor:
        """pi_x."""
        return self.kernel.law_at(self.x)

    @cached_property
    def odds(self) -> Tensor:
        """alpha / (1 - alpha)."""
        stayed, moved = along_batch(self.kernel.stayed, self.x.ndim), along_batch(self.kernel.moved, self.x.ndim)
        return torch.where(moved == 0, 0.0, stayed / moved)

    @cached_property
    def came(self) -> Tensor:
        """(1 - alpha) pi_x."""
        return along_batch(self.kernel.moved, self.x.ndim) * self.own_law

    @cached_property
    def fixed(self) -> Tensor:
        """Where pi_x = 0 nothing comes into x, and where nothing has moved yet nothing came: then x0 is x."""
        return (self.came == 0).to(self.x.device)

    @cached_property
    def arrived(self) -> Tensor:
        """q(x | x)."""
        arrived = along_batch(self.kernel.stayed, self.x.ndim) + self.came
        return arrived.masked_fill_(arrived == 0, 1.0)  # x cannot be: any number will do

    @cached_property
    def any_fixed(self) -> bool:
        """Whether a site may be ``fixed``: where the host would have to wait for the answer, True."""
        moved = self.kernel.moved
        if _device.is_host(moved.device) and self.kernel.facts.least > 0 and bool((moved > 0).all()):
            return False
        return not _device.is_host(self.fixed.device) or bool(self.fixed.any())

    def reachable(self) -> Tensor | None:
        if not self.any_fixed:
            return None
        own = torch.arange(self.kernel.law.shape[-1], device=self.x.device) == self.x[..., None]
        return own | ~self.fixed[..., None]

    def ratios(self, posterior: Posterior) -> PerState:
        inverse = torch.where(self.own_law > 0, 1 / self.own_law, 0.0)
        moved = along_batch(self.kernel.moved, self.x.ndim)
        on_law = Shares(own=moved / self.arrived, others=inverse)
        on_probs = self.odds * inverse
        mixture = self._mixture(on_probs, on_law, moved)
        logits = posterior.logits
        if on_probs.numel() and float(on_probs.max()) > _LARGEST_IN_FLOAT32:
            posterior = Posterior(logits.to(torch.float64))
        return mixture.mixed(posterior).to(logits.dtype).scatter(-1, self.x[..., None], 1.0)

    def jumps(self) -> Mixture:
        beta = along_batch(self.beta, self.x.ndim)
        on_law = Shares(own=beta * self._kappa(), others=beta)
        return self._mixture(self.odds * beta, on_law, beta * along_batch(self.kernel.moved, self.x.ndim))

    def step(self, earlier: Kernel, between: Kernel) -> Mixture:
        """With q_s = a I + (1 - a) 1 pi^T and q_t|s = b I + (1 - b) 1 pi^T, where alpha = a b,

        p_s(v) = (1 - b) a / (1 - alpha) p(v) + (1 - b) m pi_v                               v != x
        p_s(x) = (b + (1 - b) pi_x) (a p(x) / (alpha + (1 - alpha) pi_x) + m)
        m      = (1 - a) [(1 - p(x)) / (1 - alpha) + p(x) pi_x / (alpha + (1 - alpha) pi_x)]
        """
        earlier, between = _rank_one(earlier), _rank_one(between)
        a, not_a = along_batch(earlier.stayed, self.x.ndim), along_batch(earlier.moved, self.x.ndim)
        b, not_b = along_batch(between.stayed, self.x.ndim), along_batch(between.moved, self.x.ndim)
        moved = along_batch(self.kernel.moved, self.x.ndim)
        inverse = torch.where(moved == 0, 0.0, 1 / moved)
        m = Shares(own=not_a * self.own_law / self.arrived, others=not_a * inverse)
        arrives = b + not_b * self.own_law
        on_law = Shares(own=not_b * m.own, others=not_b * m.others)
        at_own = Shares(own=arrives * (a / self.arrived + m.own), others=arrives * m.others)
        return self._mixture(not_b * a * inverse, on_law, not_b * not_a, at_own)

    def departures(self, posterior: Posterior) -> Departures:
        values = self.beta, self.kernel.stayed, self.kernel.moved
        return RankOneDepartures(self.x, self.kernel, posterior, values, of_rates)

    def step_departures(self, earlier: Kernel, between: Kernel, posterior: Posterior) -> Departures:
        earlier, between = _rank_one(earlier), _rank_one(between)
        values = earlier.stayed, earlier.moved, between.moved, self.kernel.stayed, self.kernel.moved
        return RankOneDepartures(self.x, self.kernel, posterior, values, of_step)

    def _mixture(
        self, on_probs: Tensor, on_law: Shares, factor: Tensor, at_own: Shares | None = None
    ) -> RankOneMixture:
        """With ``on_law.own`` equal to ``factor pi_x / q(x | x)``, up to the pi_x of the ratios."""
        least = self.kernel.facts.least_positive
        stayed, moved = along_batch(self.kernel.stayed, self.x.ndim), along_batch(self.kernel.moved, self.x.ndim)
        least_own = factor * least / (stayed + moved * least)
        law, facts = self.kernel.law, self.kernel.facts
        return RankOneMixture(
            self.x, law, facts, self.fixed, self.any_fixed, on_probs, on_law, least_own=least_own, at_own=at_own
        )

    def _kappa(self) -> Tensor:
        return self.came / self.arrived


def _rank_one(kernel: Kernel) -> RankOneKernel:
    if not isinstance(kernel, RankOneKernel):
        raise TypeError("a rank-one process must have rank-one kernels at all times")
    return kernel
