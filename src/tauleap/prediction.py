"""Predict unknown values in one evaluation of the network: their distributions, and the best value of each.

Under absorbing noise an unknown site is masked, so that one evaluation returns p(x0 of the site | the known sites): the
distribution that many completions would estimate. For other noise the unknown sites are drawn from the prior, at t = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import SiteMask, States
from tauleap.evaluate._mode import evaluating
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess


@dataclass(frozen=True)
class SitePrediction:
    """Hold the distribution of one site in the rows where it is unknown.

    Args:
        site: The position of the site in a flattened row.
        rows: The rows in which it is unknown.
        probs: p(x0 of the site | the known sites of the row).
    """

    site: int
    rows: Int64[Tensor, " n"]
    probs: Float[Tensor, "n states"]


def predict_sites(
    reverse: ReverseProcess,
    x: States,
    known: SiteMask,
    *,
    batch_size: int,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[SitePrediction]:
    """Yield the distributions of the unknown values, batch by batch and site by site, on the CPU.

    Args:
        reverse: The reverse process.
        x: Rows of states; any state where they are unknown.
        known: Which values are known.
        batch_size: Rows per evaluation of the network.
        condition: Input of a conditional network, one entry per row. Default: none.
        generator: The source of randomness, for other than absorbing noise. Default: that of PyTorch.
    """
    incomplete = (~known).flatten(1).any(1).nonzero().flatten()
    device, sites = reverse.device, x[:1].numel()
    with evaluating(reverse), torch.no_grad():
        for rows in incomplete.split(batch_size):
            mask = known[rows].to(device)
            start = _draw.from_law(reverse.process.sampling_prior(), x[rows].shape, generator).to(device)
            noisy = torch.where(mask, x[rows].to(device), start)
            given = None if condition is None else condition[rows.to(condition.device)].to(device)
            posterior = reverse.posterior(noisy, 1.0, observed=Observed(mask, noisy), condition=given)
            unknown = ~mask.flatten(1)
            for site in unknown.any(0).nonzero().flatten().tolist():
                here = unknown[:, site].nonzero().flatten()
                probs = posterior.at(here * sites + site).softmax(-1)
                yield SitePrediction(site, rows[here.cpu()], probs.cpu())
