"""A mixture that is a multiple of p plus a multiple of the law pi, in O(S) a site."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tauleap import _device
from tauleap._precision import full_precision
from tauleap._shapes import Law, PerState, States
from tauleap.denoise import Posterior
from tauleap.noise.rank_one import LawFacts
from tauleap.reverse.mixture import Mixture, Wanted, Worked
from tauleap.reverse.rank_one_comparison import compare


class Shares(NamedTuple):
    """The factor of p(x) and the factor of all the other probabilities together."""

    own: Tensor
    others: Tensor


class RankOneMixture(Mixture):
    """With x a site's own state,

        h_v = on_probs p(v) + k pi_v            v != x
        h_x = e

    where k and e are linear in p(x) and 1 - p(x): ``on_law`` and ``at_own``. Where ``fixed``, x0 is x. Coefficients
    are float64, and they and ``fixed`` are () or have axes that meet x. ``least_own`` bounds the positive entries of
    ``on_law.own`` from below; ``any_fixed`` may be True where no site is ``fixed``.
    """

    def __init__(
        self,
        x: States,
        law: Law,
        facts: LawFacts,
        fixed: Tensor,
        any_fixed: bool,
        on_probs: Tensor,
        on_law: Shares,
        *,
        least_own: Tensor,
        at_own: Shares | None,
    ) -> None:
        self.x, self.law, self.facts, self.fixed, self.any_fixed = x, law, facts, fixed, any_fixed
        self.least_own = least_own
        self.on_probs, self.on_law, self.at_own = on_probs, on_law, at_own

    @full_precision
    def mixed(self, posterior: Posterior) -> PerState:
        probs, index = posterior.probs, self.x[..., None]
        own = probs.gather(-1, index).squeeze(-1)
        in_place = not probs.requires_grad
        # Summed without the own state: 1 - p(x) would cancel.
        probs = probs.scatter_(-1, index, 0.0) if in_place else probs.scatter(-1, index, 0.0)
        others = probs.sum(-1)
        on_probs = self._as(self.on_probs, probs)
        if self.any_fixed:
            own, others = own.masked_fill(self.fixed, 1.0), others.masked_fill(self.fixed, 0.0)
            on_probs = on_probs.masked_fill(self.fixed, 0.0)
        law, on_law = self._as(self.law, probs), self._shared(self.on_law, own, others)[..., None]
        factor = on_probs[..., None] if on_probs.ndim else on_probs
        out = probs.mul_(factor).addcmul_(on_law, law) if in_place else torch.addcmul(probs * factor, on_law, law)
        if self.at_own is None:
            return out.scatter_(-1, index, 0.0)
        return out.scatter_(-1, index, self._shared(self.at_own, own, others)[..., None])

    def known(self, x0: States, dtype: torch.dtype) -> PerState:
        law = self.law.to(dtype).to(self.x.device)
        like = law[..., :0]
        differs = (x0 != self.x) & ~self.fixed
        on_law = torch.where(differs, self._as(self.on_law.others, like), self._as(self.on_law.own, like))
        out = on_law[..., None] * law
        on_true = torch.where(differs, self._as(self.on_probs, like), 0.0)
        out.scatter_add_(-1, x0[..., None], on_true[..., None])
        if self.at_own is None:
            return out.scatter_(-1, self.x[..., None], 0.0)
        own = torch.where(differs, self._as(self.at_own.others, like), self._as(self.at_own.own, like))
        return out.scatter_(-1, self.x[..., None], own[..., None])

    def _worked(self, logits: Tensor, x0: States, wanted: Wanted) -> Worked:
        return compare(self, logits, x0, wanted)

    def _shared(self, shares: Shares, own: Tensor, others: Tensor) -> Tensor:
        return own * self._as(shares.own, own) + others * self._as(shares.others, own)

    def _as(self, value: Tensor, like: Tensor) -> Tensor:
        return _device.moved_to(value, self.x.device, like.dtype)
