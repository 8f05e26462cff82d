"""The bound of absorbing noise, drawn by the number of masked sites."""

from __future__ import annotations

import torch

from tauleap.objective.noised_batch import LossBatch
from tauleap.objective.objective import Loss, Objective
from tauleap.objective.random_order import random_order_mask


class AnyOrderElbo(Objective):
    """Estimate the bound of absorbing noise with less variance than from random times (Uria et al. 2014).

        -log p(x0) <= n E_{j ~ U{1..n}} E_{j of n sites masked} [ mean over the masked sites of -log p(x0 | x) ]

    It is the path integral of :class:`CompleteElbo` over all of 0 < 1 - alpha < 1, with the number j of masked sites
    stratified over the batch instead of the time. It is also the mean over all orders of the sites of the negative
    log-likelihood of a model that draws one site after another, as :class:`tauleap.sampling.FirstHitting` does.

    A network that takes t gets the time at which 1 - alpha is distributed as Beta(j, n - j + 1), so that the value is
    the path integral for it too, but for times after 1: a schedule leaves alpha(1) > 0, and they count as t = 1.

    At a given t the value is the integrand with respect to 1 - alpha, the sum of the masked sites' -log p over
    1 - alpha(t). It cannot be added to objectives that draw times.

    >>> AnyOrderElbo()
    AnyOrderElbo()
    """

    by_number = True

    def evaluate(self, batch: LossBatch) -> Loss:
        random_order_mask(batch.reverse.process, "AnyOrderElbo()")
        values = -batch.at("x_t").log_prob(batch.x0)  # 0 at the sites that are not masked
        weight = -1 / torch.expm1(-batch.reverse.process.schedule.total(batch.t)) if batch.given else batch.weight
        value = batch.sum(values) * weight.to(values.dtype).to(values.device)
        return Loss(value, {"path": value})

    def __repr__(self) -> str:
        return "AnyOrderElbo()"
