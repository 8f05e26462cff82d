"""Masks of absorbing noise, drawn by the number of masked sites instead of the time.

Under absorbing noise the masked sites of x_t are any j of n with equal probability, and the time matters through
m = 1 - alpha(t), the probability of a mask, alone. The path integral of the bound is

    int_0^1 (1/m) E[ sum of the masked sites' -log p ] dm,   j | m ~ Binomial(n, m).

Exchanging integral and sum, int (1/m) C(n, j) m^j (1-m)^(n-j) dm = 1/j: it is n times the mean over j = 1 .. n of the
mean -log p of j masked sites. Given j, m has the density of Beta(j, n - j + 1), which is the distribution of the j-th
smallest of n uniform numbers. So one uniform number per site gives both: the j smallest are masked, and the j-th is m.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import SiteMask
from tauleap.noise import ForwardProcess
from tauleap.noise.absorbing import mask_of


class MaskDraw(NamedTuple):
    """Hold the masked sites, the times m = 1 - alpha that belong to them, and the weights of their losses."""

    masked: SiteMask
    m: Float[Tensor, " batch"]
    weight: Float[Tensor, " batch"]
    """n / j: the sum of the masked sites' -log p, times this, is an unbiased estimate of the bound."""


def draw_masked(scored: SiteMask, places: Float[Tensor, " batch"], generator: torch.Generator | None) -> MaskDraw:
    """Return random sets of masked sites, with a uniformly distributed number of sites in each.

    Args:
        scored: The sites that can be masked; n of them in a row.
        places: One number in [0, 1) per row, which decides the number of masked sites, 1 .. n.
        generator: The source of randomness.

    >>> scored = torch.ones(4, 4, dtype=torch.bool)
    >>> masks = draw_masked(scored, torch.arange(4) / 4, torch.Generator().manual_seed(0))
    >>> masks.masked.sum(1), masks.weight
    (tensor([1, 2, 3, 4]), tensor([4.0000, 2.0000, 1.3333, 1.0000], dtype=torch.float64))
    """
    sites = scored.flatten(1)
    count = sites.sum(1)
    number = torch.minimum((places * count).long() + 1, count.clamp(min=1))
    values = _draw.uniforms(sites.shape, sites.device, generator).masked_fill(~sites, 2.0)
    m = values.sort(1).values.gather(1, (number - 1)[:, None])
    masked = (values <= m) & sites
    return MaskDraw(masked.view(scored.shape), m.squeeze(1).clamp(max=1.0), count.double() / number)


def time_of(process: ForwardProcess, m: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return the times at which a site is masked with probability m, at most 1.

    Args:
        process: Absorbing noise.
        m: Probabilities; larger ones than that of t = 1 give 1.
    """
    return process.schedule.inverse_total(-torch.log1p(-m.clamp(max=1 - 2.0**-53))).clamp(max=1.0)


def random_order_mask(process: ForwardProcess, what: str) -> int:
    """Return the mask of absorbing noise; raise a ValueError for other noise.

    Args:
        process: The noise.
        what: The name of the objective or function, for the message.
    """
    need = f"{what} is for Absorbing noise, where masked sites are unmasked in random order"
    return mask_of(process, need, "write CompleteElbo(), by name complete")
