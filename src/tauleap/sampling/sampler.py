"""The interface of a sampler, which takes states from a time t to an earlier time s."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap._shapes import States
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess


@dataclass(frozen=True)
class StepInfo:
    """Hold the counts of one step, for reports; later steps do not depend on them.

    Numbers per site are means over the sites that are not observed.

    >>> info = StepInfo.count(torch.tensor([[0, 0, 1, 2]]), torch.tensor([[0, 1, 1, 2]]), evaluations=1.0)
    >>> info.jumped, info.evaluations
    (tensor(0.2500), tensor(1.))
    """

    evaluations: Float[Tensor, ""]
    """Network evaluations per sample, on average."""
    jumped: Float[Tensor, ""]
    """The proportion of sites whose state changed."""
    jumps: Float[Tensor, ""]
    """Jumps per site, including rejected ones; equal to ``jumped`` for a sampler that does not count jumps."""
    rejected: Float[Tensor, ""]
    """The proportion of sites whose jumps were rejected, because there was more than one."""
    clamped: Float[Tensor, ""]
    """The proportion of sites at which a value was clamped: a sum of jumps at the first or last state (TauLeaping),
    a negative rate (Trapezoidal) or probability (Extrapolated) at 0."""
    entropy_bound: Float[Tensor, ""] = field(default_factory=lambda: torch.tensor(torch.nan))
    """A bound on the error of the draws in nats per sample, on average (Planned). Default: NaN, for other samplers."""

    @staticmethod
    def count(
        before: States,
        after: States,
        *,
        evaluations: float,
        observed: Observed | None = None,
        jumps: Tensor | None = None,
        rejected: Tensor | None = None,
        clamped: Tensor | None = None,
        entropy_bound: Tensor | None = None,
    ) -> StepInfo:
        """Return the counts of one step.

        Args:
            before: The states before the step.
            after: The states after the step.
            evaluations: The number of network evaluations per sample.
            observed: The observed sites. Default: none.
            jumps: The number of jumps of each site. Default: one per site that changed.
            rejected: Whether the jumps of each site were rejected. Default: never.
            clamped: Whether a value of each site was clamped. Default: never.
            entropy_bound: A bound on the error of the draws, in nats per sample. Default: none is known.
        """
        unobserved = before.numel() if observed is None else (~observed.mask).sum().clamp(min=1)

        def per_site(counts: Tensor | None) -> Tensor:
            if counts is None:
                return torch.zeros((), device=before.device)
            return counts.sum() / unobserved if before.numel() else torch.zeros((), device=before.device)

        jumped = per_site(before != after)
        return StepInfo(
            torch.tensor(float(evaluations)),
            jumped,
            jumped if jumps is None else per_site(jumps),
            per_site(rejected),
            per_site(clamped),
            torch.tensor(torch.nan) if entropy_bound is None else entropy_bound,
        )

    @staticmethod
    def merged(parts: Sequence[StepInfo], before: States, after: States, observed: Observed | None) -> StepInfo:
        """Return several steps as one: evaluations and jumps are summed, proportions of sites are means over the steps.

        Args:
            parts: The counts of the steps.
            before: The states before the first step.
            after: The states after the last step.
            observed: The observed sites, or None.
        """
        whole = StepInfo.count(before, after, evaluations=0.0, observed=observed)
        evaluations, jumps, rejected, clamped = (
            torch.stack([getattr(part, name) for part in parts])
            for name in ("evaluations", "jumps", "rejected", "clamped")
        )
        bounds = torch.stack([part.entropy_bound for part in parts])
        return StepInfo(evaluations.sum(), whole.jumped, jumps.sum(), rejected.mean(), clamped.mean(), bounds.sum())


class Sampler(ABC):
    """Run the reverse chain from a time t to an earlier time s.

    A subclass defines ``order``, :meth:`step` and, if it does not support every process, :meth:`check`.

    >>> from tauleap import denoise, noise
    >>> class Euler(Sampler):
    ...     order = 1.0
    ...     def step(self, reverse, x_t, t, s, *, observed=None, condition=None, generator=None):
    ...         x_t = self.enter(reverse, x_t, t, s, observed)
    ...         jumps = (t - s) * reverse.rates(x_t, t, observed=observed, condition=condition)
    ...         stays = (1 - jumps.sum(-1, keepdim=True)).clamp(min=0.0)
    ...         probs = jumps.scatter(-1, x_t[..., None], stays).flatten(0, -2)
    ...         x_s = torch.multinomial(probs, 1, generator=generator).reshape(x_t.shape)
    ...         return x_s, StepInfo.count(x_t, x_s, evaluations=1.0, observed=observed)
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(torch.tensor([1.0, 0.0]), process))
    >>> x_s, info = Euler().step(reverse, torch.tensor([[1], [1]]), 0.1, 0.0)
    >>> x_s.tolist()  # the data is state 0
    [[0], [0]]
    """

    order: float
    """The order of convergence: the error of the marginal distribution at a time falls as this power of the grid's step
    size, for smooth distributions; the docstring of each sampler says where the order is smaller. ``inf`` if the grid
    causes no error: for exact samplers, and for ``NextReaction``, whose error of order 2 depends on a step of its
    own."""

    def check(self, process: ForwardProcess) -> None:
        """Raise a ValueError that names a suitable sampler if this one does not support the process.

        Args:
            process: The forward process.
        """
        if not isinstance(process, ForwardProcess):
            raise TypeError(f"process must be a ForwardProcess such as Uniform, got {type(process).__name__}")

    @abstractmethod
    def step(
        self,
        reverse: ReverseProcess,
        x_t: States,
        t: float,
        s: float,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[States, StepInfo]:
        """Return the states at time s < t, and counts of the step. Observed sites keep their values.

        Args:
            reverse: The reverse process.
            x_t: The states at time t.
            t: The time of the states, in (0, 1].
            s: The time to reach, in [0, t).
            observed: The observed sites and their values. Default: none.
            condition: The input of the denoiser, with one entry per sample along its first axis. Default: none.
            generator: The source of randomness. Default: that of torch.
        """

    @final
    def enter(self, reverse: ReverseProcess, x_t: States, t: float, s: float, observed: Observed | None) -> States:
        """Return ``x_t`` with the observed values filled in; raise for invalid arguments.

        A step checks its arguments only here; it then calls ``reverse.at(..., checked=True)``.

        Args:
            reverse: The reverse process.
            x_t: The states at time t.
            t: The time of the states, in (0, 1].
            s: The time to reach, in [0, t).
            observed: The observed sites and their values, or None.
        """
        self.check(reverse.process)
        if not 0 <= s < t <= 1:
            raise ValueError(f"a step must lead from t to an earlier time s, both in [0, 1], got t = {t} and s = {s}")
        return reverse.check_states(x_t, observed, name="x_t")


def check_condition(condition: object, number: int) -> None:
    if not isinstance(condition, Tensor):
        raise TypeError(f"condition must be a tensor with one entry per sample, got {type(condition).__name__}")
    if condition.ndim < 1 or condition.shape[0] != number:
        raise ValueError(
            f"condition must have one entry per sample, {number}, along its first axis, got {tuple(condition.shape)}"
        )
