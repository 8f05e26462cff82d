"""The coefficients of the rank-one formula, ``q = alpha I + (1 - alpha) 1 pi^T``; derived here and nowhere else.

Rates to a state v and probabilities of a step to v are a multiple of p plus a multiple of pi,

    h_v = f p(v) + (k_own p(x) + k_other (1 - p(x))) pi_v       v != x
    h_x =           e_own p(x) + e_other (1 - p(x))

and depend on a site through pi_x only. If pi_x = 0, or before any noise, x can only come from x0 = x, and f and k
are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tauleap import _device


class Coefficients(NamedTuple):
    """Hold the coefficients in float64, () or with axes that broadcast with x."""

    f: Tensor
    k_own: Tensor
    k_other: Tensor
    e_own: Tensor | None = None
    e_other: Tensor | None = None


def rate_coefficients(pi_x: Tensor, beta: Tensor, alpha: Tensor, one_minus_alpha: Tensor) -> Coefficients:
    """Return the coefficients of the reverse rates, for which h_x is 0.

        f = beta alpha / (1 - alpha),        k_own = beta (1 - alpha) pi_x / q(x | x),        k_other = beta

    Args:
        pi_x: the stationary probability of each site's state.
        beta: the schedule's rate times the base rate of the process.
        alpha: the probability that a site has not been redrawn.
        one_minus_alpha: its complement, computed without cancellation.
    """
    q_x_elsewhere = one_minus_alpha * pi_x
    kappa = q_x_elsewhere / (alpha + q_x_elsewhere)
    return _zero_if_known(q_x_elsewhere, beta * (alpha / one_minus_alpha), beta * kappa, beta)


def step_coefficients(
    pi_x: Tensor,
    a: Tensor,
    one_minus_a: Tensor,
    b: Tensor,
    one_minus_b: Tensor,
    alpha: Tensor,
    one_minus_alpha: Tensor,
) -> Coefficients:
    """Return the coefficients of a step from t to s.

        f       = (1 - b) a / (1 - alpha)
        k_own   = (1 - b) (1 - a) pi_x / q(x | x)          e_own   = q_t|s(x | x) (a + (1 - a) pi_x) / q(x | x)
        k_other = (1 - b) (1 - a) / (1 - alpha)            e_other = q_t|s(x | x) (1 - a) / (1 - alpha)

    Args:
        pi_x: the stationary probability of each site's state.
        a: the alpha of q_s|0.
        one_minus_a: its complement.
        b: the alpha of q_t|s.
        one_minus_b: its complement.
        alpha: that of q_t|0, which is a b.
        one_minus_alpha: its complement.
    """
    q_xx = alpha + one_minus_alpha * pi_x
    q_xx = torch.where(q_xx == 0, 1.0, q_xx)  # x has probability 0: any number will do
    inverse = torch.where(one_minus_alpha == 0, 0.0, 1 / one_minus_alpha)
    m_own, m_other = one_minus_a * pi_x / q_xx, one_minus_a * inverse
    stays = b + one_minus_b * pi_x
    moving = _zero_if_known(
        one_minus_alpha * pi_x, one_minus_b * a * inverse, one_minus_b * m_own, one_minus_b * m_other
    )
    return moving._replace(e_own=stays * (a / q_xx + m_own), e_other=stays * m_other)


def _zero_if_known(q_x_elsewhere: Tensor, f: Tensor, k_own: Tensor, k_other: Tensor) -> Coefficients:
    """Return f and k, set to 0 where x0 must be x; the given values may be NaN there."""
    known = q_x_elsewhere == 0
    if _device.is_host(known.device) and not bool(known.any()):
        return Coefficients(f, k_own, k_other)
    return Coefficients(*(torch.where(known, 0.0, value) for value in (f, k_own, k_other)))
