"""Losses of absorbing noise, from the masked and scored sites alone.

With m a site in the mask, ``Rhat_v = f p(v)`` for every data state v and ``C_v = f 1[v = x0]``, where f depends on the
time alone. Sites that are not masked have no rates. So the divergence of a masked site is

    sum_v Rhat_v - C_v + C_v log(C_v / Rhat_v) = -f log p(x0),

and logits are needed at the masked sites that have a loss, and nowhere else. A step is alike: its f is the probability
to leave the mask, and to stay is equally probable with and without x0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import PerSite, PerState, SiteMask, States
from tauleap.denoise import Posterior
from tauleap.noise.kernel import along_batch
from tauleap.reverse.absorbing.masked_sites import MaskedSites
from tauleap.reverse.base import PosteriorExpectation, RateComparison


class AbsorbingExpectation(PosteriorExpectation):
    """Implement reverse rates, or probabilities of a step, as a function of a posterior over the data states.

    Args:
        general: The same as a function of any posterior.
        sites: The masked sites.
        leaving: f, the rate or probability to leave the state, float64 and 0 at sites that are not masked.
    """

    def __init__(self, general: PosteriorExpectation, sites: MaskedSites, leaving: PerSite) -> None:
        self.x, self._general, self._sites, self._leaving = general.x, general, sites, leaving

    def under(self, posterior: Posterior) -> PerState:
        return self._general.under(posterior)

    def given(self, x0: States, dtype: torch.dtype) -> PerState:
        return self._general.given(x0, dtype)

    def given_among(self, x0: States, leaving: Tensor, total: Tensor) -> PerSite:
        leaving = leaving.reshape(len(leaving), *(1,) * (x0.ndim + 1 - leaving.ndim), *leaving.shape[1:])
        leaving = leaving.expand(*x0.shape, -1)
        of_x, of_x0 = (leaving.gather(-1, states[..., None]).squeeze(-1) for states in (self.x, x0))
        divisor = of_x0 + (along_batch(total, x0.ndim) - of_x).clamp(min=0.0)
        known = self._leaving.to(divisor.dtype).to(divisor.device)
        return torch.where(known > 0, known / divisor, 0.0)

    def divergence(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        sites = self._sites.positions(scored)
        log_prob, leaving = self._at(x0, posterior, sites)
        return self._sites.spread(-leaving * log_prob, sites)

    def compare(
        self,
        x0: States,
        posterior: Posterior,
        *,
        weight: Tensor | None = None,
        total: bool = True,
        scored: SiteMask | None = None,
    ) -> RateComparison:
        sites = self._sites.positions(scored)
        log_prob, leaving = self._at(x0, posterior, sites)
        signals = torch.where(leaving == 0, 0.0, torch.xlogy(leaving, leaving) + leaving * log_prob)
        signal = self._sites.spread(signals, sites)
        outflow = self._sites.spread(leaving, sites)
        if weight is None:
            weighted = signal
        else:
            weighted = along_batch(_device.moved_to(weight, signal.device, signal.dtype), x0.ndim) * signal
        return RateComparison(outflow - weighted if total else -weighted, outflow, signal.detach())

    def _at(self, x0: States, posterior: Posterior, sites: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(x0 | x) and f at some sites."""
        log_prob = posterior.log_prob(x0.reshape(-1).index_select(0, sites), sites)
        leaving = _device.moved_to(self._leaving, log_prob.device, log_prob.dtype)
        return log_prob, leaving.expand(x0.shape).reshape(-1).index_select(0, sites)
