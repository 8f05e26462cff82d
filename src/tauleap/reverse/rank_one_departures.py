"""Departures in O(S) a site: the rates are a multiple of p plus a multiple of pi,

    Rhat(v) = beta [ odds p(v) + (1 - p(x) + p(x) kappa) pi_v ],        v != x,

so that the exit rate needs p(x) alone: ``fast (1 - p(x)) + slow p(x)`` with two numbers that depend on x.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise import RankOneKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.departures import Departures, chunks


class RankOneDepartures(Departures):
    """``beta`` is the schedule's rate times the process' speed, float64, () or (batch,)."""

    def __init__(self, beta: Tensor, kernel: RankOneKernel, x: States, posterior: Posterior) -> None:
        self.beta, self.kernel, self.x, self.logits = beta, kernel, x, posterior.logits

    @property
    def exit_rate(self) -> PerSite:
        return self._exit_rate

    @cached_property
    def _exit_rate(self) -> PerSite:
        fast, slow = (value.to(self.logits.dtype).to(self.x.device) for value in self._speeds)
        index = self.x[..., None]
        if self.logits.requires_grad:
            probs = self.logits.softmax(-1)
            own = probs.gather(-1, index).squeeze(-1)
            # Summed without the own state: 1 - p(x) would cancel.
            return slow * own + fast * probs.scatter(-1, index, 0.0).sum(-1)
        own, others = torch.empty_like(fast), torch.empty_like(fast)
        rows, index = self.logits.reshape(-1, self.logits.shape[-1]), index.reshape(-1, 1)
        for part in chunks(len(rows), rows.shape[-1], rows.device):
            # Not divided by their sum yet: that is left for a number a site.
            weights = (rows[part] - rows[part].amax(-1, keepdim=True)).exp_()
            own.view(-1, 1)[part] = weights.gather(-1, index[part])
            others.view(-1)[part] = weights.scatter_(-1, index[part], 0.0).sum(-1)
        total = own + others
        return own.mul_(slow).addcmul_(others, fast).div_(total)

    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        out = torch.empty_like(chosen)
        for part in chunks(len(chosen), self.logits.shape[-1], chosen.device):
            out[part] = self._draw(chosen[part], generator)
        return out

    def _draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        x, law, noise = self._at(chosen)
        law_x = law[x] if law.ndim == 1 else law.gather(-1, x[:, None]).squeeze(-1)
        stayed, moved = torch.exp(-noise), -torch.expm1(-noise)
        # Where pi_x = 0 or nothing has moved, no rate but 0 leads away, and no site is chosen.
        kappa = moved * law_x / (stayed + moved * law_x)
        probs = self.logits.reshape(-1, self.logits.shape[-1]).index_select(0, chosen).to(torch.float64).softmax(-1)
        probs = probs.to(law.device)
        own = probs.gather(-1, x[:, None]).squeeze(-1)
        probs.scatter_(-1, x[:, None], 0.0)
        on_law = probs.sum(-1) + own * kappa
        odds = stayed / moved
        rates = probs.mul_(odds[:, None] if odds.ndim else odds).addcmul_(on_law[:, None], law)
        return _draw.categorical(rates.scatter_(-1, x[:, None], 0.0), generator).to(chosen.device)

    def _at(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x, the law and the noise at the chosen sites, where the law lives."""
        law, noise, sites = self.kernel.law, self.kernel.noise, self.x[:1].numel()
        x = self.x.reshape(-1)[chosen].to(law.device)
        if law.ndim > 1:
            law = law.reshape(-1, law.shape[-1])[(chosen % sites).to(law.device)]
        return x, law, noise[(chosen // sites).to(noise.device)] if noise.ndim else noise

    @property
    def _speeds(self) -> tuple[PerSite, PerSite]:
        """The exit rate if x0 were another state than x, and if it were x; 0 where x0 is known to be x."""
        kernel = self.kernel
        if kernel.law.ndim == 1 and not kernel.noise.ndim:  # the same for all sites in one state
            fast, slow = _speeds(self.beta, kernel.stayed, kernel.moved, kernel.law)
            x = self.x.to(kernel.law.device)
            return fast[x], slow[x]
        beta, stayed, moved = (along_batch(v, self.x.ndim) for v in (self.beta, kernel.stayed, kernel.moved))
        return _speeds(beta, stayed, moved, kernel.law_at(self.x))


def _speeds(beta: Tensor, stayed: Tensor, moved: Tensor, law_x: Tensor) -> tuple[Tensor, Tensor]:
    known = (law_x == 0) | (moved == 0)
    odds = stayed / torch.where(moved == 0, 1.0, moved)
    kappa = moved * law_x / torch.where(known, 1.0, stayed + moved * law_x)
    return torch.where(known, 0.0, beta * (odds + 1 - law_x)), torch.where(known, 0.0, beta * kappa * (1 - law_x))
