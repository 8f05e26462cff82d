"""Rows whose likelihood is estimated: which sites count, which are given, and means of likelihoods over draws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import SiteMask, States
from tauleap.denoise.on_device import moved
from tauleap.evaluate.estimate import Estimate
from tauleap.objective.arguments import check_missing, has_rows
from tauleap.objective.noised_batch import check_kinds
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess


@dataclass(frozen=True)
class KnownRows:
    """Hold flattened rows on the CPU, and the model that evaluates them.

    Args:
        reverse: The reverse process; that of the CPU for a device without float64.
        x: The states, (n, sites); any data state where a value is missing.
        scored: The sites whose likelihood is estimated.
        observed: The sites that are conditioned on.
        missing: The sites without a value.
        shape: The shape of one row.
        condition: The input of the network.
        by_row: Whether the condition has one entry per row.
    """

    reverse: ReverseProcess
    x: Tensor
    scored: SiteMask
    observed: SiteMask
    missing: SiteMask
    shape: tuple[int, ...]
    condition: Tensor | None
    by_row: bool

    @property
    def has_observed(self) -> bool:
        """Whether any site is observed."""
        return bool(self.observed.any())

    def condition_of(self, rows: Tensor) -> Tensor | None:
        """Return the condition of some rows.

        Args:
            rows: The numbers of the rows.
        """
        if self.condition is None or not self.by_row:
            return self.condition
        return self.condition[rows.to(self.condition.device)]


def known_rows(
    reverse: ReverseProcess,
    data: States,
    observed: Observed | None = None,
    missing: Tensor | None = None,
    condition: Tensor | None = None,
) -> KnownRows:
    """Check rows and their masks.

    Args:
        reverse: The reverse process.
        data: The rows, (n, *shape).
        observed: Observed sites. Default: none.
        missing: A bool mask of unknown values. Default: none.
        condition: The input of the network. Default: none.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The rows are not data of the process, masks have other shapes, or a row has no site to score.
    """
    check_kinds(observed, condition, None)
    if not isinstance(data, Tensor) or data.dtype != torch.int64:
        given = data.dtype if isinstance(data, Tensor) else type(data).__name__
        raise TypeError(f"data must be an int64 tensor (n, *shape), got {given}")
    if data.ndim < 2 or data.numel() == 0:
        raise ValueError(f"data must be rows (n, *shape) with n >= 1, got shape {tuple(data.shape)}")
    data = moved(data, _device.CPU)
    unknown = torch.zeros_like(data, dtype=torch.bool)
    given_sites = unknown
    if missing is not None:
        unknown = moved(check_missing(missing, data, name="data"), _device.CPU)
        data = data.masked_fill(unknown, 0)
    if observed is not None:
        observed = observed.to(_device.CPU)
        observed.check(data, reverse.process.num_states, name="data")
        data, given_sites = observed.fill(data), observed.mask
        if bool((unknown & given_sites).any()):
            raise ValueError("a site cannot be observed and missing at once: clear one of the two masks there")
    x = _check.states(data, reverse.process.num_states, name="data")
    if _device.lacks_float64(reverse.device):
        reverse = reverse.on_cpu()
    reverse.process.check_data(x, unknown)
    flat, seen, absent = (each.flatten(1) for each in (x, given_sites, unknown))
    scored = ~(seen | absent)
    if bool((~scored.any(1)).any()):
        number = int((~scored.any(1)).nonzero()[0, 0])
        raise ValueError(f"every value of row {number} is observed or missing: leave the row out")
    by_row = condition is not None and has_rows(condition, len(x))
    return KnownRows(reverse, flat, scored, seen, absent, tuple(x.shape[1:]), condition, by_row)


def log_mean_exp(values: Float[Tensor, "n draws"]) -> Estimate[Tensor]:
    """Return the logarithm of the mean of exp(values) over the draws, with its standard error.

    Args:
        values: Log-likelihoods of independent draws.

    >>> log_mean_exp(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    Estimate(value=tensor([0., 1.], dtype=torch.float64), stderr=tensor([0., 0.], dtype=torch.float64), n=2)
    """
    values, draws = values.to(torch.float64), values.shape[1]
    value = values.logsumexp(1) - math.log(draws)
    if draws == 1:
        return Estimate(value, torch.full_like(value, math.inf), 1)
    # By the delta method: the relative error of the mean of the likelihoods.
    relative = (values - value[:, None]).exp()
    stderr = relative.std(1) / math.sqrt(draws)
    return Estimate(value, torch.where(value.isneginf(), math.inf, stderr), draws)
