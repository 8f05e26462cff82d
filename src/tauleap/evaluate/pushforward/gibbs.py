"""The exact kernel of a Gibbs corrector."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from tauleap.evaluate.independent_sites import push_sites
from tauleap.evaluate.pushforward.step import states_of
from tauleap.reverse import ReverseProcess
from tauleap.sampling.gibbs import Selection, conditionals, least_likely, site_ratios


def push_gibbs(
    reverse: ReverseProcess, law: Tensor, t: float, sites: int = 1, selection: Selection = "random"
) -> Tensor:
    """Return the pushforward of ``law`` under one step of the Gibbs corrector.

    Args:
        reverse: The reverse process.
        law: The distribution (S,)*D at time t.
        t: The time, in (0, 1].
        sites: The number of sites that are redrawn. Default: 1.
        selection: "random" sites or those with the smallest "margin". Default: "random".

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> law = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    >>> push_gibbs(reverse, law, 0.1)
    tensor([[0.8352, 0.0824],
            [0.0824, 0.0000]], dtype=torch.float64)
    """
    x, size = states_of(law), law.shape[0]
    stays = torch.nn.functional.one_hot(x, size).to(torch.float64)
    sets = [torch.zeros_like(x, dtype=torch.bool) for _ in itertools.combinations(range(law.ndim), sites)]
    for chosen, places in zip(sets, itertools.combinations(range(law.ndim), sites), strict=True):
        chosen[:, list(places)] = True
    if selection == "margin":
        sets = [least_likely(site_ratios(reverse, x, t), x, sites)]
    out = torch.zeros_like(law)
    for chosen in sets:
        probs = conditionals(reverse, x, t, chosen)
        laws = stays.clone()
        laws[chosen] = probs / probs.sum(-1, keepdim=True)
        out += push_sites(law.reshape(-1), laws)
    return out / len(sets)
