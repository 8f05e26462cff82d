"""The exact kernel of planned unmasking."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from tauleap.denoise import Posterior
from tauleap.evaluate.independent_sites import push_sites
from tauleap.evaluate.pushforward.step import FULL, Accuracy, exact_posterior, pushforward_step, states_of
from tauleap.reverse import ReverseProcess
from tauleap.sampling.planned import Planned, UnmaskingPlan, entropy_of, scores, within_bound


@pushforward_step.register
def _(sampler: Planned, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    x = states_of(law)
    plan = UnmaskingPlan.of(reverse.process, x, s, None, sampler.numbers)
    remaining, posterior = plan.remaining(x), exact_posterior(reverse, x, t)
    while True:
        law = _evaluation(sampler, law, posterior, plan)
        unfinished = (law.reshape(-1) > 0) & (remaining > 0)
        if sampler.bound is None or not bool(unfinished.any()):
            return law


def _evaluation(sampler: Planned, law: Tensor, posterior: Posterior, plan: UnmaskingPlan) -> Tensor:
    """Return the pushforward under one evaluation: the mean over all orders, which break the ties of scores."""
    x = states_of(law)
    masked, number, logits = plan.masked(x), plan.remaining(x), posterior.logits
    entropy, score = (
        value.reshape(x.shape) for value in (entropy_of(logits.flatten(0, 1)), scores(logits.flatten(0, 1), sampler.by))
    )
    score = torch.where(masked, score, torch.inf)
    stays = torch.nn.functional.one_hot(x, logits.shape[-1]).to(law.dtype)
    orders = list(itertools.permutations(range(law.ndim)))
    out = torch.zeros_like(law)
    for order in orders:
        turn = torch.tensor(order).expand(len(x), -1)
        turn = turn.gather(1, score.gather(1, turn).argsort(dim=1, stable=True))
        chosen = within_bound(turn, number, torch.where(masked, entropy, 0.0), sampler.bound)
        out += push_sites(law.reshape(-1), torch.where(chosen[..., None], posterior.probs, stays))
    return out / len(orders)
