"""What a sampler is: it takes states from a time t to an earlier time s."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check
from tauleap._shapes import States
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed, check_observed
from tauleap.reverse import ReverseProcess


@dataclass(frozen=True)
class StepInfo:
    """What happened in a step, for the reader: nothing of it is needed by the next one.

    Numbers a site are means over the sites that are free to move, those that are not observed.
    """

    evaluations: Float[Tensor, ""]
    """Passes of the denoiser that a sample took part in, on average."""
    jumped: Float[Tensor, ""]
    """The proportion of sites that are not in the state in which they were."""
    jumps: Float[Tensor, ""]
    """Jumps a site, those among them that were rejected; for a sampler that does not count jumps the same as jumped."""
    rejected: Float[Tensor, ""]
    """The proportion of sites whose jumps were rejected, because there was more than one."""
    clamped: Float[Tensor, ""]
    """The proportion of sites at which something was cut off: a sum of jumps at the first or last state (TauLeaping),
    a negative rate (Trapezoidal) or probability (Extrapolated) at 0."""

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
    ) -> StepInfo:
        """From the states before and after, and tensors that hold a count or a bool for each site."""
        free = before.numel() if observed is None else (~observed.mask).sum().clamp(min=1)

        def per_site(counts: Tensor | None) -> Tensor:
            if counts is None:
                return torch.zeros((), device=before.device)
            return counts.sum() / free if before.numel() else torch.zeros((), device=before.device)

        jumped = per_site(before != after)
        return StepInfo(
            torch.tensor(float(evaluations)),
            jumped,
            jumped if jumps is None else per_site(jumps),
            per_site(rejected),
            per_site(clamped),
        )

    @staticmethod
    def together(parts: Sequence[StepInfo], before: States, after: States, observed: Observed | None) -> StepInfo:
        """Several steps as one: evaluations and jumps add up, proportions of sites are means over the steps."""
        whole = StepInfo.count(before, after, evaluations=0.0, observed=observed)
        evaluations, jumps, rejected, clamped = (
            torch.stack([getattr(part, name) for part in parts])
            for name in ("evaluations", "jumps", "rejected", "clamped")
        )
        return StepInfo(evaluations.sum(), whole.jumped, jumps.sum(), rejected.mean(), clamped.mean())


class Sampler(ABC):
    """A way to run the reverse chain. A new one says its order and how it steps, and what it cannot be used with."""

    order: float
    """The power of the grid's step size in the error of the law at a fixed time; ``inf`` where the grid makes none, as
    for a sampler that is exact, and for ``NextReaction``, whose error of order 2 is that of a step of its own."""

    def check(self, process: ForwardProcess) -> None:
        """Refuses a process that this sampler does not fit, and names the combination that works."""
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
        """From the states at time t to those at time s < t. Observed sites keep the values that are given."""

    @final
    def enter(self, reverse: ReverseProcess, x_t: States, t: float, s: float, observed: Observed | None) -> States:
        """``x_t`` with what is known in its place; refuses what no step can be made from."""
        self.check(reverse.process)
        if not 0 <= s < t <= 1:
            raise ValueError(f"a step must lead from t to an earlier time s, both in [0, 1], got t = {t} and s = {s}")
        x_t = _check.states(x_t, reverse.process.num_states, name="x_t")
        if observed is None:
            return x_t
        check_observed(observed).check(x_t, reverse.process.num_states)
        return observed.fill(x_t)


def check_condition(condition: object, number: int) -> None:
    if not isinstance(condition, Tensor):
        raise TypeError(f"condition must be a tensor with one entry a sample, got {type(condition).__name__}")
    if condition.ndim < 1 or condition.shape[0] != number:
        raise ValueError(
            f"condition must have one entry a sample, {number}, along its first axis, got {tuple(condition.shape)}"
        )


def select_samples(
    observed: Observed | None, condition: Tensor | None, which: Tensor
) -> tuple[Observed | None, Tensor | None]:
    """What is given for the samples ``which`` alone."""
    return (
        None if observed is None else Observed(observed.mask[which], observed.values[which]),
        None if condition is None else condition[which],
    )
