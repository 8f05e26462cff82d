"""Departures in O(S) a site: what leads from x to another state v is a multiple of p plus a multiple of pi,

    f p(v) + k pi_v,        v != x,        k = k_others (1 - p(x)) + k_own p(x),

for rates as for the probabilities of a step. So what leads away in all needs p(x) alone, and the three coefficients
depend on the site by pi_x only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tauleap import _device, _draw
from tauleap._chunks import chunks
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise.kernel import along_batch
from tauleap.noise.rank_one import RankOneKernel, at_own_state
from tauleap.reverse.departures import Departures

_ROWS_AT_ONCE = 2**19  # entries: nothing but softmax is made of them


class Coefficients(NamedTuple):
    """Float64; 0 where x0 is known to be x."""

    f: Tensor
    k_own: Tensor
    k_others: Tensor


class RankOneDepartures(Departures):
    """``coefficients`` are worked out from pi_x and from ``values``, float64 and () or (batch,)."""

    def __init__(
        self,
        x: States,
        kernel: RankOneKernel,
        posterior: Posterior,
        values: tuple[Tensor, ...],
        coefficients: Callable[..., Coefficients],
    ) -> None:
        self.x, self.logits, self.law, self.elsewhere = x, posterior.logits, kernel.law, kernel.elsewhere
        self.values, self.coefficients = values, coefficients

    @property
    def exit_rate(self) -> PerSite:
        return self._exit_rate

    @cached_property
    @full_precision
    def _exit_rate(self) -> PerSite:
        from_others, from_own = (value.to(self.logits.dtype).to(self.x.device) for value in self._away)
        index = self.x[..., None]
        if self.logits.requires_grad:
            probs = self.logits.softmax(-1)
            own = probs.gather(-1, index).squeeze(-1)
            return from_own * own + from_others * probs.scatter(-1, index, 0.0).sum(-1)
        out = torch.empty_like(from_own)
        rows, states = self.logits.reshape(-1, self.logits.shape[-1]), self.x.reshape(-1)
        of_own, of_others, ones = from_own.reshape(-1), from_others.reshape(-1), rows.new_ones(rows.shape[-1])
        for part in chunks(len(rows), rows.shape[-1], rows.device, _ROWS_AT_ONCE):
            probs, at = rows[part].softmax(-1), states[part, None]
            own = probs.gather(-1, at).squeeze(-1)
            # Summed without the own state: 1 - p(x) would cancel.
            others = torch.mv(probs.scatter_(-1, at, 0.0), ones)
            out.view(-1)[part] = others.mul_(of_others[part]).addcmul_(own, of_own[part])
        return out

    @full_precision
    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        out = torch.empty_like(chosen)
        for part in chunks(len(chosen), self.logits.shape[-1], chosen.device):
            out[part] = self._draw(chosen[part], generator)
        return out

    def _draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        law, sites = self.law, self.x[:1].numel()
        x = self.x.reshape(-1)[chosen].to(law.device)
        if law.ndim > 1:
            law = law.reshape(-1, law.shape[-1])[(chosen % sites).to(law.device)]
        samples = (chosen // sites).to(law.device)
        values = (value[samples] if value.ndim else value for value in self.values)
        law_x = law[x] if law.ndim == 1 else law.gather(-1, x[:, None]).squeeze(-1)
        f, k_own, k_others = self.coefficients(law_x, *values)

        logits = self.logits.reshape(-1, self.logits.shape[-1]).index_select(0, chosen)
        probs = logits.to(torch.float64).softmax(-1).to(law.device)
        own = probs.gather(-1, x[:, None]).squeeze(-1)
        probs.scatter_(-1, x[:, None], 0.0)
        on_law = k_others * probs.sum(-1) + k_own * own
        weights = probs.mul_(f[:, None] if f.ndim else f).addcmul_(on_law[:, None], law)
        return _draw.categorical(weights.scatter_(-1, x[:, None], 0.0), generator).to(chosen.device)

    @property
    def _away(self) -> tuple[PerSite, PerSite]:
        """What leads away in all if x0 were another state than x, and if it were x."""
        mass = self.elsewhere
        if self.law.ndim == 1 and not any(value.ndim for value in self.values):
            f, k_own, k_others = self.coefficients(self.law, *self.values)
            x = self.x.to(self.law.device)  # the same for all sites in one state
            return (f + k_others * mass)[x], (k_own * mass)[x]
        law_x = at_own_state(self.law, self.x)
        f, k_own, k_others = self.coefficients(law_x, *(along_batch(value, self.x.ndim) for value in self.values))
        mass = at_own_state(mass, self.x)
        return f + k_others * mass, k_own * mass


def of_rates(law_x: Tensor, beta: Tensor, stayed: Tensor, moved: Tensor) -> Coefficients:
    """Rhat(v) = beta [ odds p(v) + (1 - p(x) + p(x) kappa) pi_v ], beta with the process' speed in it."""
    came = moved * law_x
    kappa = came / (stayed + came)
    return _unless_known(law_x, moved, beta * (stayed / moved), beta * kappa, beta)


def of_step(law_x: Tensor, a: Tensor, not_a: Tensor, not_b: Tensor, stayed: Tensor, moved: Tensor) -> Coefficients:
    """p_s(v) = (1 - b) a / (1 - alpha) p(v) + (1 - b) m pi_v, see ``RankOneReversal.step``."""
    m_own = not_a * law_x / (stayed + moved * law_x)
    return _unless_known(law_x, moved, not_b * a / moved, not_b * m_own, not_b * not_a / moved)


def _unless_known(law_x: Tensor, moved: Tensor, *values: Tensor) -> Coefficients:
    """0 where x0 is known to be x, as nothing can have come there, and where the values may not be numbers."""
    known = law_x * moved == 0
    if _device.is_host(known.device) and not bool(known.any()):
        return Coefficients(*values)
    return Coefficients(*(torch.where(known, 0.0, value) for value in values))
