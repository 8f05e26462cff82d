"""The bound of the process cut at K times: D3PM's."""

from __future__ import annotations

from typing import Literal

import torch

from tauleap import _check, _device
from tauleap.objective.noised_batch import LossBatch
from tauleap.objective.objective import Loss, Objective
from tauleap.objective.times import GridTimes


class DiscreteTimeElbo(Objective):
    """Compute the bound of D3PM over the times k/K, with its constants (Section 2; Austin et al. 2021).

        L_DT = KL(q_1|0(. | x0) || prior)                                                                  "prior"
               + sum_{k=2}^{K} E_{x ~ q_k|0} KL(q(x_{k-1} | x, x0) || p(x_{k-1} | x))                      "steps"
               + E_{x ~ q_1/K|0} [-log p(x0 | x)]                                                 "reconstruction"

    with ``p(x_{k-1} | x) = sum_x0 q(x_{k-1} | x, x0) p(x0 | x)``, site by site (``ReverseProcess.step_probs``). The
    last term is that of k = 1. D3PM's hybrid loss is ``DiscreteTimeElbo(steps=1000) + 0.001 * CrossEntropy()``, at the
    same k. Given times ``t`` must be on the grid, and need ``terms="random"``.

    As K grows this tends to ``CompleteElbo``; with one site and a denoiser that satisfies Bayes' rule it does not
    depend on K at all.

    Args:
        steps: The number of steps K, >= 1.
        terms: ``"random"`` takes one k per sample, times K; ``"all"`` takes every k in turn, with K evaluations of the
            network. Default: "random".

    >>> DiscreteTimeElbo(1000)
    DiscreteTimeElbo(1000)
    """

    def __init__(self, steps: int, *, terms: Literal["random", "all"] = "random") -> None:
        self.steps = _check.integer("steps", steps, least=1)
        if terms not in ("random", "all"):
            raise ValueError(f'terms must be "random" (one of the K, times K) or "all", got {terms!r}')
        self.terms = terms
        self.times = GridTimes(self.steps)

    def evaluate(self, batch: LossBatch) -> Loss:
        if self.terms == "all":
            if batch.given:
                raise ValueError(
                    f'terms="all" evaluates all of the {self.steps} times and takes no t: leave t out, or '
                    f"write DiscreteTimeElbo({self.steps}) for the term of one time"
                )
            losses = [self._term(batch.at_time(k / self.steps)) for k in range(1, self.steps + 1)]
            steps, reconstruction = (torch.stack(parts).sum(0) for parts in zip(*losses, strict=True))
        else:
            steps, reconstruction = (self.steps * batch.mean_over_time(part) for part in self._term(batch))
        prior = batch.sum(batch.reverse.process.prior_divergence(batch.x0)).to(steps.dtype)
        terms = {"prior": prior, "steps": steps, "reconstruction": reconstruction}
        return Loss(prior + steps + reconstruction, terms)

    def _term(self, batch: LossBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the term of the k that was drawn: that of a step, or the reconstruction if k is 1."""
        number = (batch.t * self.steps).round()
        t, s = number / self.steps, (number - 1) / self.steps
        on_grid = ((batch.t - t).abs() * self.steps < 1e-3) & (number >= 1)
        if _device.is_host(batch.t.device) and not bool(on_grid.all()):
            raise ValueError(f"t must be one of k/{self.steps} with k = 1..{self.steps}, got {batch.t.tolist()}")
        value = batch.sum(batch.at("x_t").step_divergence(batch.x0, s))
        first = _device.moved_to(batch.per_sample(number == 1), value.device)
        return torch.where(first, 0.0, value), torch.where(first, value, 0.0)

    def __repr__(self) -> str:
        every = "" if self.terms == "random" else ', terms="all"'
        return f"DiscreteTimeElbo({self.steps}{every})"
