"""Choose an objective by its name."""

from __future__ import annotations

from tauleap.noise import ForwardProcess
from tauleap.objective import AnyOrderElbo, CompleteElbo, CrossEntropy, Objective, PaperElbo
from tauleap.objective.random_order import random_order_mask

OBJECTIVES = ("any-order", "complete", "paper", "cross-entropy")
"""The bound of absorbing noise by numbers of masked sites; the bound with all its terms; the published loss, L_eCT +
0.001 L_ll; and L_ll alone, which is not a bound."""


def choose_objective(
    objective: Objective | str | None, process: ForwardProcess, *, uses_time: bool
) -> tuple[Objective, str]:
    """Return an objective and the reason for it.

    Args:
        objective: An objective, one of ``OBJECTIVES``, or None for the default, the bound with the least variance.
        process: The forward process.
        uses_time: Whether the network takes t.

    Raises:
        ValueError: The name is unknown, or the objective is for absorbing noise alone.
        TypeError: The argument is neither a name nor an objective.
    """
    loss, reason = _objective(objective, any_order=process.mask is not None and not uses_time)
    if loss.by_number:
        random_order_mask(process, "objective any-order")
    return loss, reason


def _objective(objective: Objective | str | None, *, any_order: bool) -> tuple[Objective, str]:
    if objective is None and any_order:
        return (
            AnyOrderElbo(),
            "objective: any-order, because it estimates the bound that bits/dim reports with the least variance",
        )
    if objective is None:
        return CompleteElbo(), "objective: complete, because this is the bound that bits/dim reports"
    if isinstance(objective, Objective):
        return objective, f"objective: {objective!r}, as given"
    if not isinstance(objective, str):
        raise TypeError(
            f"objective must be one of {', '.join(OBJECTIVES)}, or an Objective, got {type(objective).__name__}"
        )
    named = {
        "any-order": AnyOrderElbo(),
        "complete": CompleteElbo(),
        "paper": PaperElbo(passes=1) + 0.001 * CrossEntropy(),
        "cross-entropy": CrossEntropy(),
    }
    if objective not in named:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, or an Objective, got {objective!r}")
    return named[objective], f"objective: {objective}, as given"
