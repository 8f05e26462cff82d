"""What the formula comes to for ``q = alpha I + (1 - alpha) 1 pi^T``, in O(S) a site:

    Rhat(v) = beta [ alpha / (1 - alpha) p(v) + (1 - p(x) + p(x) kappa) pi_v ],
    kappa   = (1 - alpha) pi_x / (alpha + (1 - alpha) pi_x),

with beta the schedule's rate times the process' speed; the ratios are these without beta, over pi_x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSite, PerState, States
from tauleap.denoise import Posterior
from tauleap.noise import RankOneKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.reversal import Reversal


class RankOneReversal(Reversal):
    """O(S) a site: the rates are a multiple of p plus a multiple of pi."""

    def __init__(self, beta: Tensor, kernel: RankOneKernel, x: States) -> None:
        self.beta, self.kernel, self.x = beta, kernel, x
        self.own_law = kernel.law_at(x)
        stayed, moved = along_batch(kernel.stayed, x.ndim), along_batch(kernel.moved, x.ndim)
        # Where pi_x = 0 nothing comes into x, and where nothing has moved yet nothing came: then x0 is x.
        self.fixed = ((self.own_law == 0) | (moved == 0)).to(x.device)
        self.odds = torch.where(moved == 0, 0.0, stayed / moved)
        arrived = stayed + moved * self.own_law
        self.arrived = torch.where(arrived == 0, 1.0, arrived)  # x cannot be: any number will do

    def reachable(self) -> Tensor | None:
        if not bool(self.fixed.any()):
            return None
        own = torch.arange(self.kernel.law.shape[-1], device=self.x.device) == self.x[..., None]
        return own | ~self.fixed[..., None]

    def ratios(self, posterior: Posterior) -> PerState:
        probs, own, others = self._split(posterior)
        inverse = torch.where(self.own_law > 0, 1 / self.own_law, 0.0)
        moved = along_batch(self.kernel.moved, self.x.ndim)
        on_law = others * self._as(inverse, probs) + own * self._as(moved / self.arrived, probs)
        return self._combine(probs, self._as(self.odds * inverse, probs), on_law, at_own_state=1.0)

    def rates(self, posterior: Posterior) -> PerState:
        probs, own, others = self._split(posterior)
        beta = along_batch(self.beta, self.x.ndim)
        on_law = (others + own * self._as(self._kappa(), probs)) * self._as(beta, probs)
        return self._combine(probs, self._as(self.odds * beta, probs), on_law, at_own_state=0.0)

    def exit_rate(self, posterior: Posterior) -> PerSite:
        probs, own, others = self._split(posterior)
        towards_law = (others + own * self._as(self._kappa(), probs)) * self._as(1 - self.own_law, probs)
        beta = self._as(along_batch(self.beta, self.x.ndim), probs)
        return beta * (self._as(self.odds, probs) * others + towards_law)

    def draw_destination(self, posterior: Posterior, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        logits = posterior.logits.reshape(-1, posterior.logits.shape[-1])[chosen]
        rates = self._at(chosen).rates(Posterior(logits.to(torch.float64)))
        return _draw.categorical(rates, generator)

    def _at(self, chosen: Tensor) -> RankOneReversal:
        """The same, for the chosen sites as a batch of their own."""
        sites = self.x[0].numel()
        samples, law = (chosen // sites).to(self.kernel.law.device), self.kernel.law
        if law.ndim > 1:
            law = law.reshape(-1, law.shape[-1])[(chosen % sites).to(law.device)]
        noise, beta = (value[samples] if value.ndim else value for value in (self.kernel.noise, self.beta))
        return RankOneReversal(beta, RankOneKernel(noise, law), self.x.reshape(-1)[chosen])

    def _split(self, posterior: Posterior) -> tuple[PerState, PerSite, PerSite]:
        """p without each site's own state, p of the own state, and the sum of the rest (1 - p(x) would cancel)."""
        probs, index = posterior.probs, self.x[..., None]
        own = probs.gather(-1, index).squeeze(-1)
        probs = probs.scatter(-1, index, 0.0) if probs.requires_grad else probs.scatter_(-1, index, 0.0)
        others = probs.sum(-1)
        return probs, own.masked_fill(self.fixed, 1.0), others.masked_fill(self.fixed, 0.0)

    def _combine(self, probs: PerState, on_probs: Tensor, on_law: PerSite, *, at_own_state: float) -> PerState:
        law = self.kernel.law.to(probs.dtype).to(probs.device)
        on_probs = on_probs.masked_fill(self.fixed, 0.0)[..., None]
        if probs.requires_grad:
            return torch.addcmul(probs * on_probs, on_law[..., None], law).scatter(-1, self.x[..., None], at_own_state)
        return probs.mul_(on_probs).addcmul_(on_law[..., None], law).scatter_(-1, self.x[..., None], at_own_state)

    def _kappa(self) -> Tensor:
        return along_batch(self.kernel.moved, self.x.ndim) * self.own_law / self.arrived

    def _as(self, value: Tensor, probs: Tensor) -> Tensor:
        return value.to(probs.dtype).to(probs.device)
