"""The distribution of a site after a leap: of the draw by tau-leaping with constant rates for a time tau."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap.sampling.tau_leaping import MultipleJumps

_SITES_AT_ONCE = 64


def leap_laws(rates: Tensor, x: Tensor, tau: float, multiple_jumps: MultipleJumps) -> Tensor:
    """Return the distribution of each site after a leap from x (n, D) with the given rates (n, D, S)."""
    exits, own = rates.sum(-1, keepdim=True), x[..., None]
    stays = torch.exp(-tau * exits)
    if multiple_jumps == "reject":
        return (tau * rates * stays).scatter(-1, own, 1 - tau * exits * stays)
    if multiple_jumps == "last":
        jumps = rates / torch.where(exits > 0, exits, 1.0) * -torch.expm1(-tau * exits)
        return jumps.scatter(-1, own, stays)
    return _sum_of_jumps(rates, x, tau)


def _sum_of_jumps(rates: Tensor, x: Tensor, tau: float) -> Tensor:
    """Return the law of x + sum_v P_v (v - x), clamped: compound Poisson, by its characteristic function.

    It is taken on a circle, a few sites at a time, with one length for those.
    """
    laws = [
        _clamped_sum(some, own, tau)
        for some, own in zip(
            rates.flatten(0, -2).split(_SITES_AT_ONCE), x.reshape(-1, 1).split(_SITES_AT_ONCE), strict=True
        )
    ]
    return torch.cat(laws).reshape(rates.shape)


def _clamped_sum(rates: Tensor, x: Tensor, tau: float) -> Tensor:
    """Return the law for rates (n, S) and states x (n, 1), on a circle so long that wrap-around is below rounding."""
    size = rates.shape[-1]
    displacement = torch.arange(size) - x
    length = 1 << math.ceil(math.log2(2 * max(size, _reach(tau * rates, displacement))))
    circle = torch.zeros(len(x), length, dtype=rates.dtype).scatter_(-1, displacement % length, rates)
    law = torch.fft.irfft(torch.exp(tau * (torch.fft.rfft(circle) - rates.sum(-1, keepdim=True))), n=length)
    place = torch.arange(length)
    place = torch.where(place < length // 2, place, place - length)
    ends = (x + place).clamp_(0, size - 1)
    return torch.zeros_like(rates).scatter_add_(-1, ends, law.clamp_(min=0))


def _reach(means: Tensor, displacement: Tensor) -> float:
    """Return a distance that a sum of jumps, ``means`` expected of each length, exceeds with probability <= exp(-37).

    Chernoff's bound: P(sum > r) <= exp(K(a) - a r), K(a) = sum_v means_v (exp(a displacement_v) - 1), for any a > 0;
    here for a times the number of states from 1/16 to 64, so that no exponential overflows.
    """
    slopes = 2.0 ** torch.arange(-4.0, 7.0, dtype=means.dtype) / means.shape[-1]
    further = []
    for direction in (displacement, -displacement):
        cumulant = (means[:, None] * torch.expm1(slopes[:, None] * direction[:, None])).sum(-1)
        further.append(float(((cumulant.amax(0) + 37) / slopes).min()))
    return max(further)
