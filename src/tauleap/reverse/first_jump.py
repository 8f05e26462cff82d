"""When the first site of a sample jumps, if the posterior is that of the start, for rank-one noise.

While a site stays in x, its own part of the posterior changes in a known way (see ``carry``). The reverse path stays in
x between the noise n and the smaller noise n' with probability

    A(n') = e^-(1 - pi_x)(n - n') sum_x0 p(x0) q_n'(x | x0) / q_n(x | x0):

the forward path is in x at n' and does not leave it until n. For rank one this needs p(x) alone. The sites are
independent, so that the first jump of a sample comes where the product of A over the sites has fallen to a uniform u.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSample, PerSite, SiteMask, States
from tauleap.denoise import Posterior
from tauleap.noise import RankOneProcess
from tauleap.noise.kernel import along_batch
from tauleap.noise.rank_one import at_own_state

_HALVINGS = 50


class FirstJumpClock:
    """For states x at time t with the given posterior, in which only ``free`` sites can jump."""

    def __init__(self, process: RankOneProcess, x: States, t: float, posterior: Posterior, free: SiteMask) -> None:
        self.free, self.schedule, self.speed = free, process.schedule, process.speed
        self.noise = process.speed * float(process.schedule.total(t))
        self.law = at_own_state(process.stationary(), x).to(x.device)
        probs = posterior.probs
        self.own = probs.gather(-1, x[..., None]).squeeze(-1).to(torch.float64)
        self.others = probs.scatter(-1, x[..., None], 0.0).sum(-1).to(torch.float64)

    def draw(self, s: float, generator: torch.Generator | None) -> PerSample:
        """The time of each sample's first jump, float64; s itself where there is none before it."""
        target = torch.log1p(-_draw.uniforms((len(self.law),), self.law.device, generator))
        everyone = torch.arange(len(target), device=target.device)
        low = torch.full_like(target, self.speed * float(self.schedule.total(s)))
        jumps = (self._log_stays(everyone, low) <= target).nonzero().squeeze(-1)
        low, high, target = low[jumps], torch.full_like(target[jumps], self.noise), target[jumps]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            sooner = self._log_stays(jumps, middle) <= target  # it has happened by then, so at a greater noise
            low, high = torch.where(sooner, middle, low), torch.where(sooner, high, middle)
        times = self.schedule.inverse_total(high / self.speed).clamp_(min=math.nextafter(s, 1.0))
        return torch.full((len(self.law),), s, dtype=torch.float64, device=times.device).index_copy_(0, jumps, times)

    def _log_stays(self, samples: Tensor, noise: PerSample) -> PerSample:
        """log of the probability that no site of these samples has jumped down to ``noise``."""
        noise, law = along_batch(noise, self.law.ndim), self.law[samples]
        start = torch.full_like(noise, self.noise)
        own = _arrived(noise, law) / _arrived(start, law)
        others = torch.expm1(-noise) / torch.expm1(-start)
        fell = torch.log(self.own[samples] * own + self.others[samples] * others) - (1 - law) * (start - noise)
        # Where pi_x = 0 nothing came, so nothing leaves.
        return torch.where(self.free[samples] & (law > 0), fell, 0.0).flatten(1).sum(1)


def _arrived(noise: Tensor, law: PerSite) -> PerSite:
    """q(x | x)."""
    return torch.exp(-noise) - torch.expm1(-noise) * law
