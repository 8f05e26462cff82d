"""One run of a sampler on a model: temperature, guidance, conditions on columns, and the batches."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from tauleap import _check, _device
from tauleap._seeds import derive_seed
from tauleap._shapes import States
from tauleap.denoise import Guided, Tempered
from tauleap.evaluate._mode import evaluating
from tauleap.given import GivenColumns
from tauleap.network.labels import num_labels
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Sampler, Tuning, choose_sampling, sample


class DrawnStates(NamedTuple):
    """Hold states on the CPU, and how many are effectively different if conditions made them weighted."""

    x: States
    effective_size: float | None


@dataclass(frozen=True)
class SamplingRun:
    """Hold the options that :meth:`tauleap.Model.sample` and :meth:`tauleap.Model.complete` share, and draw with them.

    Args:
        reverse: The reverse process of the model.
        batch_size: Rows per batch.
        steps: The largest number of steps. Default: 100, or as many as ``tol`` needs.
        sampler: The sampler. Default: None, selected.
        grid: The times of the steps. Default: None, selected.
        temperature: Divides the logits. Default: 1.
        seed: The seed of the draws. Default: None, a random seed.
        condition: The input of a conditional network, one entry per row. Default: None.
        guidance: The guidance scale. Default: 1.
        progress: Whether to show a progress bar. Default: false.
        tol: The largest predicted error, in nats per row. Default: None, not limited.
        tuning: The tuning of the model. Default: None.
    """

    reverse: ReverseProcess
    batch_size: int
    steps: int | None = None
    sampler: Sampler | None = None
    grid: Iterable[float] | Tensor | None = None
    temperature: float = 1.0
    seed: int | None = None
    condition: Tensor | None = None
    guidance: float = 1.0
    progress: bool = False
    tol: float | None = None
    tuning: Tuning | None = None

    def draw(
        self, shape: tuple[int, ...], observed: Observed | None = None, *, given: GivenColumns | None = None
    ) -> DrawnStates:
        """Return rows of states, conditional on observed sites or on conditions on columns.

        Args:
            shape: The number of rows and the shape of one, (n, *shape).
            observed: The observed sites. Default: none.
            given: Conditions on columns, whose sites are drawn first. Default: none.
        """
        reverse, generator = self._adjusted(), _device.new_generator(_device.CPU, self.seed)
        with evaluating(reverse):
            effective = None
            if given is not None and shape[0] > 0:
                first = given.draw(
                    reverse, shape[0], batch_size=self.batch_size, condition=self.condition, generator=generator
                )
                observed, effective = first.observed, first.effective_size if first.weighted else None
            sites = math.prod(shape[1:])
            if observed is not None and shape[0] > 0:
                sites = int((~observed.mask).flatten(1).sum(1).max())
            plan = choose_sampling(
                reverse.process,
                sites,
                steps=self.steps,
                sampler=self.sampler,
                grid=self.grid,
                tol=self.tol,
                tuning=self.tuning,
            )
            drawn = sample(
                reverse,
                plan.sampler,
                shape,
                grid=plan.grid,
                final=plan.final,
                observed=observed,
                condition=self.condition,
                batch_size=self.batch_size,
                generator=generator,
                progress=self.progress,
            )
        return DrawnStates(drawn.x0.cpu(), effective)

    def _adjusted(self) -> ReverseProcess:
        """Return the reverse process with the guidance scale and the temperature."""
        denoiser = self.reverse.denoiser
        if _check.positive("guidance", self.guidance) != 1:
            labels = num_labels(getattr(denoiser, "network", None))
            if self.condition is None or labels is None:
                raise ValueError(
                    "guidance needs class labels: write condition=..., with a model whose network has num_classes"
                )
            denoiser = Guided(denoiser, self.guidance, null_label=labels)
        if _check.positive("temperature", self.temperature) != 1:
            denoiser = Tempered(denoiser, self.temperature)
        return self.reverse if denoiser is self.reverse.denoiser else ReverseProcess(self.reverse.process, denoiser)


def decoding_seed(seed: int | None, variant: int = 0) -> int:
    """Return the seed of values inside bins, which follows from that of the sampler.

    Args:
        seed: The seed of the sampler; None for a random one.
        variant: The number of the completion. Default: 0.
    """
    return derive_seed(_device.new_generator(_device.CPU, seed).initial_seed(), "values", variant)
