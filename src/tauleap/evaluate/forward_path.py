"""Noise rows step by step, evaluate the denoiser along the way, and compare what it predicts from two of the times.

Within a step from t to s < t an ancestral sampler predicts each site from the states of the *other* sites at t, while
the reverse chain follows them. Both are jump processes, and their relative entropy is the integral over u in (s, t) of

    D(t, u) = E sum_d sum_v [ f_v - r_v + r_v log(r_v / f_v) ]                        x_u ~ q_u,  x_t ~ q_t|u(. | x_u)

with r the reverse rates at x_u, and f those from the posterior at x_t with each site's own evidence replaced by x_u.
Given x_t and x_s the path between them has the same distribution for both, so that this is also the relative entropy of
x_s given x_t.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tauleap._shapes import PerSample, PerState, States
from tauleap.denoise import Posterior
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess

Estimator = Literal["rates", "likelihood"]


class Prediction(NamedTuple):
    """Hold noisy states, their time, and p(x0 | x) in float64."""

    x: States
    t: float
    posterior: Posterior


class Rows(NamedTuple):
    """Hold some rows of data on the device of the model, with observed sites and the condition."""

    x0: States
    observed: Observed | None = None
    condition: Tensor | None = None


def forward_path(
    reverse: ReverseProcess, rows: Rows, times: Sequence[float], generator: torch.Generator | None
) -> Iterator[Prediction]:
    """Yield the predictions at increasing times, of noisy states that continue each other."""
    x, before = rows.x0, 0.0
    for t in times:
        x = reverse.process.noise(x, t, before, generator=generator)
        x = x if rows.observed is None else rows.observed.fill(x)
        posterior = reverse.posterior(x, t, observed=rows.observed, condition=rows.condition)
        yield Prediction(x, t, Posterior(posterior.logits.double(), over_data_states=posterior.over_data_states))
        before = t


class Current:
    """Compare the reverse chain at a time u with predictions from later times of the same path.

    Args:
        reverse: The reverse process.
        rows: The data.
        now: The prediction at u.
        estimator: "rates" for D(t, u) as it is written; "likelihood" for the increase of the integrand of the bound on
            -log p(x0), which has the same expectation if the denoiser is exact.
    """

    def __init__(self, reverse: ReverseProcess, rows: Rows, now: Prediction, estimator: Estimator) -> None:
        self.reverse, self.rows, self.now, self.estimator = reverse, rows, now, estimator
        self.own = self._rates(now.posterior) if estimator == "rates" else self._likelihood(now.posterior)

    def divergence(self, later: Prediction) -> PerSample:
        """Return one draw per row of D(t, u), by which the rates predicted at t diverge from those at u.

        It is in nats per unit of time.

        Args:
            later: The prediction at t > u.
        """
        now = self.now
        frozen = self.reverse.with_own_evidence(later.posterior, later.x, later.t, now.x, now.t)
        if self.estimator == "likelihood":
            return self._likelihood(frozen) - self.own
        rates = self._rates(frozen)
        entropy = torch.where(self.own > 0, self.own * (self.own / rates).log(), 0.0)
        return (rates - self.own + entropy).flatten(1).sum(1)

    def _rates(self, posterior: Posterior) -> PerState:
        return self.reverse.rates(self.now.x, self.now.t, observed=self.rows.observed, posterior=posterior)

    def _likelihood(self, posterior: Posterior) -> PerSample:
        at = self.reverse.at(self.now.x, self.now.t, observed=self.rows.observed, posterior=posterior)
        return at.divergence(self.rows.x0).flatten(1).sum(1)


def root_nodes(s: float, t: float, number: int) -> list[tuple[float, float]]:
    """Return times and weights of Gauss's rule between s and t, in the square root of the time, in increasing order.

    Towards the data D(t, u) grows as log(1 / u), which is smooth enough in the square root.

    Args:
        s: The earlier time.
        t: The later time.
        number: The number of nodes.

    >>> [round(sum(w * u for u, w in root_nodes(0.25, 1.0, 3)), 6)]  # the integral of u
    [0.46875]
    """
    nodes, weights = np.polynomial.legendre.leggauss(number)
    low, length = math.sqrt(s), math.sqrt(t) - math.sqrt(s)
    roots = [low + length * (node + 1) / 2 for node in nodes.tolist()]
    return [(root**2, length * root * weight) for root, weight in zip(roots, weights.tolist(), strict=True)]
