"""Estimate an objective from a subset of the sites and from fewer times than samples."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise import Kernel
from tauleap.objective.noised_batch import LossBatch, NoisedBatch, Pass, sum_scored
from tauleap.objective.objective import Loss, Objective, _parts


class Subsampled(Objective):
    """Estimate ``objective`` without bias from a random subset of the sites.

    The network is evaluated on all sites; only the loss is subsampled.

    With many states the loss costs as much as a small network, S^2 per site and S^3 per time where the generator has no
    structure, and neighbouring sites are similar. So the loss is computed for a random subset of the sites, new for
    every batch, and weighted by the inverse of their fraction; and several samples of a batch share one time, whose
    kernel is then computed once.

    Args:
        objective: the objective, or a sum of objectives.
        site_fraction: the fraction of the sites, in (0, 1]. Default: 1.
        samples_per_time: how many samples share one time. A batch size that it does not divide reduces it. Default: 1.

    >>> from tauleap.objective import CompleteElbo
    >>> Subsampled(CompleteElbo(), site_fraction=0.25, samples_per_time=4)
    Subsampled(CompleteElbo(), site_fraction=0.25, samples_per_time=4)

    ``PaperElbo`` cannot be subsampled: it uses x~, which differs from x at one site, and that site must be included.
    Processes whose sites have different priors cannot be subsampled either.
    """

    def __init__(self, objective: Objective, *, site_fraction: float = 1.0, samples_per_time: int = 1) -> None:
        if not isinstance(objective, Objective):
            raise TypeError(f"objective must be an objective, such as CompleteElbo(), got {type(objective).__name__}")
        if "x_tilde" in objective.needs:
            raise ValueError(
                f"{objective!r} needs x_tilde, and the site that jumps in x_tilde may not be in the subset: "
                "take CompleteElbo()"
            )
        if any(isinstance(part, Subsampled) for _, part in _parts(objective)):
            raise ValueError(f"{objective!r} already contains Subsampled: write Subsampled once, around the sum")
        self.objective = objective
        self.site_fraction = _check.positive("site_fraction", site_fraction)
        if self.site_fraction > 1:
            raise ValueError(f"site_fraction must be a fraction of the sites in (0, 1], got {site_fraction!r}")
        self.samples_per_time = _check.integer("samples_per_time", samples_per_time, least=1)
        self.times = objective.times
        self.integrates = objective.integrates

    @property
    def needs(self) -> frozenset[Pass]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.objective.needs

    def evaluate(self, batch: LossBatch) -> Loss:
        if not isinstance(batch, NoisedBatch):
            raise TypeError("Subsampled cannot be inside another objective: write it once, around all that is added")
        if batch.reverse.process.prior().ndim > 1:
            raise ValueError(
                "Subsampled needs a process with one prior for all sites, and this one has different priors"
            )
        # The same sites for all objectives that are added.
        if self.site_fraction not in batch.subsets:
            batch.subsets[self.site_fraction] = SiteSubset(batch, self.site_fraction)
        return self.objective.evaluate(batch.subsets[self.site_fraction])

    def __repr__(self) -> str:
        return (
            f"Subsampled({self.objective!r}, site_fraction={self.site_fraction:g}, "
            f"samples_per_time={self.samples_per_time})"
        )


class SiteSubset(LossBatch):
    """Hold some sites of a batch, with samples that share a time in one row: (batch / n, n * sites).

    The network has been evaluated on all sites; after that every site is on its own, so that its row does not matter.
    Each row has one time here.

    Args:
        whole: the batch.
        fraction: of all sites, in (0, 1].
    """

    def __init__(self, whole: NoisedBatch, fraction: float) -> None:
        super().__init__()
        self._whole, self._fraction = whole, fraction
        self.reverse, self.times, self.passes = whole.reverse, whole.times, whole.passes
        self.given, self.weight, self.masked = whole.given, whole.weight, whole.masked
        self.t, self.samples, self.samples_per_time = whole.distinct, whole.samples, 1
        every = whole.x0[0].numel()
        count = max(1, round(fraction * every))
        self._chosen = None if count == every else _random_sites(every, count, whole)
        self._factor = every / count
        self.x0 = self._select(whole.x0)
        self.scored = self._select(whole.scored)

    @property
    def distinct_kernel(self) -> Kernel:
        return self._whole.distinct_kernel

    @cached_property
    def x_t(self) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._select(self._whole.x_t)

    @cached_property
    def x_eps(self) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._select(self._whole.x_eps)

    @property
    def x_tilde(self) -> States:
        raise ValueError("a subset of the sites has no x_tilde, because the site that jumps may not be in it: use x_t")

    @property
    def exit_rates(self) -> PerSite:
        return self._select(self._whole.exit_rates)

    @property
    def can_jump(self) -> Tensor:
        return self._whole.can_jump

    @property
    def count(self) -> Tensor:
        return self._whole.count

    def posterior(self, which: Pass) -> Posterior:
        return self._whole.posterior(which).rearranged(self._select)

    def sum(self, values: PerSite) -> Float[Tensor, " samples"]:
        return self._factor * sum_scored(values, self)

    def per_sample(self, values: Tensor) -> Tensor:
        return values.repeat_interleave(self._whole.samples_per_time)

    def at_time(self, t: float) -> SiteSubset:
        return SiteSubset(self._whole.at_time(t), self._fraction)

    def _select(self, values: Tensor) -> Tensor:
        """Return (batch, *shape, *more) as (batch / n, n * sites, *more)."""
        batch, more = len(values), values.shape[self._whole.x0.ndim :]
        some = values.reshape(batch, -1, *more)
        if self._chosen is not None:
            some = some.index_select(1, self._chosen)
        return some.reshape(len(self.t), -1, *more) if self.t.ndim else some


def _random_sites(every: int, count: int, batch: NoisedBatch) -> Tensor:
    """Return ``count`` out of ``every`` sites in order, each set of them equally likely."""
    device = batch.generator.device if batch.generator is not None else batch.x0.device
    return torch.randperm(every, generator=batch.generator, device=device)[:count].sort().values.to(batch.x0.device)
