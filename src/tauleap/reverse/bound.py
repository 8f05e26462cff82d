"""A bound on the exit rates that holds for every denoiser, and a Poisson process whose rate is the bound.

A reverse rate is an expectation over x0 (see ``base``), so a site's exit rate is at most that of the worst x0,

    Lambda(x) <= beta(t) E(x),    E(x) = max over x0 with q(x | x0) > 0 of sum_{v != x} R_b(v, x) q(v | x0) / q(x | x0).

Here time is the amount of noise ``c = c(t)``: then the factor beta(t) is 1, and the bound is E. For rank one, with
``n = base_rate c``: ``E(x) = 1 - pi_x + 1 / (e^n - 1)``, with a closed integral.

For matrices E has no closed integral, but it falls as c grows. For ``q_{c+h}(v | x0) = sum_u q_h(u | x0) q_c(v | u)``,
so that the quotient at c + h,

    sum_u q_h(u | x0) [sum_v R_b(v, x) q_c(v | u)]  /  sum_u q_h(u | x0) q_c(x | u),

is a quotient of two sums, with the same weights, of the numerators and the denominators at c. It is therefore at most
the largest quotient at c, and the value at the lower end of an interval of c bounds the whole interval. E grows at most
like 1/c, so that intervals whose ends have a ratio of 1.1 waste about a tenth of the events.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSample, PerSite, SiteMask, States
from tauleap.noise import ForwardProcess, RankOneProcess
from tauleap.noise.kernel import along_batch, at_own_state

_RATIO = 1.1
"""Upper end of an interval of c, divided by its lower end."""
_BLOCK_ENTRIES = 2**24
"""Entries of the kernels that are held in memory at a time."""


class ExitBound(ABC):
    """Bound the exit rate of each site between two amounts of noise, in float64 on the device of the states."""

    @abstractmethod
    def at(self, x: States, c: PerSample) -> PerSite:
        """Return the bound of each site, for one amount of noise c per sample."""

    @abstractmethod
    def next_event(
        self,
        x: States,
        free: SiteMask,
        c: PerSample,
        generator: torch.Generator | None,
    ) -> PerSample:
        """Return the next event below c of the Poisson process whose rate is the sum over the ``free`` sites.

        A result below the lower end of the range means only that the range has no event.
        """


class RankOneBound(ExitBound):
    def __init__(self, process: RankOneProcess) -> None:
        self.base_rate, self.law = process.base_rate, process.stationary()

    def at(self, x: States, c: PerSample) -> PerSite:
        law = at_own_state(self.law, x).to(x.device)
        odds = 1 / torch.expm1(along_batch(self.base_rate * c, x.ndim))
        return torch.where(law > 0, self.base_rate * (1 - law + odds), 0.0)

    def next_event(
        self,
        x: States,
        free: SiteMask,
        c: PerSample,
        generator: torch.Generator | None,
    ) -> PerSample:
        # One independent Poisson process per term of the bound: the next event is the earlier of their two.
        law = at_own_state(self.law, x).to(x.device)
        can_jump = free & (law > 0)
        constant = torch.where(can_jump, 1 - law, 0.0).flatten(1).sum(1)
        number = can_jump.flatten(1).sum(1).to(torch.float64)
        waits = -torch.log1p(-_draw.uniforms((len(x), 2), x.device, generator))
        noise = self.base_rate * c
        noise_at_constant = noise - torch.where(constant > 0, waits[:, 0] / constant, torch.inf)
        # The integral of 1 / (e^n - 1) is log(1 - e^-n): solved for 1 - e^-n' = (1 - e^-n) e^-wait.
        wait = torch.where(number > 0, waits[:, 1] / number, torch.inf)
        noise_at_odds = -torch.log(-torch.expm1(-wait) + torch.exp(-noise - wait))
        return torch.maximum(noise_at_constant, noise_at_odds) / self.base_rate


class DenseBound(ExitBound):
    def __init__(self, process: ForwardProcess, low: float, high: float) -> None:
        steps = max(1, math.ceil(math.log(high / low) / math.log(_RATIO)))
        ends = torch.logspace(math.log(low), math.log(high), steps + 1, base=math.e, dtype=torch.float64)
        ends[0], ends[-1] = low, high
        device = process.jump_rates().matrix.device
        self.ends = ends.to(device)
        self.rates = _bounds(process, self.ends[:-1])  # (steps, S)

    def at(self, x: States, c: PerSample) -> PerSite:
        return self._rates(x, self._interval(c))

    def next_event(
        self,
        x: States,
        free: SiteMask,
        c: PerSample,
        generator: torch.Generator | None,
    ) -> PerSample:
        out, interval = c.clone(), self._interval(c)
        waiting = torch.arange(len(x), device=x.device)
        while len(waiting):
            noise, k = out[waiting], interval[waiting]
            total = torch.where(free[waiting], self._rates(x[waiting], k), 0.0).flatten(1).sum(1)
            wait = -torch.log1p(-_draw.uniforms(k.shape, x.device, generator)) / total
            lower = self.ends.to(x.device)[k]
            has_event = noise - wait >= lower
            # Without an event before the end of the interval, the wait restarts there, since it is exponential.
            out[waiting] = torch.where(has_event, noise - wait, torch.where(k > 0, lower, -torch.inf))
            interval[waiting] = k - 1
            waiting = waiting[~has_event & (k > 0)]
        return out

    def _interval(self, c: PerSample) -> Tensor:
        """Return the number of the interval below c; at an end between two intervals, the lower one."""
        found = torch.searchsorted(self.ends.to(c.device), c) - 1
        return found.clamp(0, len(self.rates) - 1)

    def _rates(self, x: States, interval: Tensor) -> PerSite:
        rates = self.rates.to(x.device)
        return rates[along_batch(interval, x.ndim), x]


def _bounds(process: ForwardProcess, c: Tensor) -> Tensor:
    """Return the bound E(x) at each c, (n, S)."""
    into = process.jump_rates().matrix  # [v, x]
    reachable = _reachable(into)
    block = max(1, _BLOCK_ENTRIES // into.numel())
    out = []
    for part in c.split(block):
        kernels = process.exponential(part)  # [x0, v]
        tiny = torch.finfo(kernels.dtype).tiny
        if bool((reachable & (kernels < tiny)).any()):
            raise ValueError(
                f"some kernel entries of {type(process).__name__} are too small for float64 after noise "
                f"c(t) = {float(part[0]):.3g}, so the reverse rates have no known bound there: end the grid at a later "
                "time, or write NextReaction() instead of Uniformization()"
            )
        exits = kernels @ into  # [x0, x]
        quotients = torch.where(reachable, exits / torch.where(reachable, kernels, 1.0), 0.0)
        out.append(quotients.amax(1))
    return torch.cat(out)


def _reachable(rates: Tensor) -> Tensor:
    """Return whether x can be reached from x0, at [x0, x]; another entry of a kernel is 0 only by underflow."""
    reach = ((rates > 0) | torch.eye(len(rates), dtype=torch.bool, device=rates.device)).to(torch.float32)
    for _ in range(max(1, math.ceil(math.log2(len(rates))))):
        reach = ((reach @ reach) > 0).to(torch.float32)
    return reach > 0
