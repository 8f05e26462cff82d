"""Objectives by name."""

from __future__ import annotations

from tauleap.objective import CompleteElbo, CrossEntropy, Objective, PaperElbo

OBJECTIVES = ("complete", "paper", "cross-entropy")
"""The bound with all its terms; the published loss, L_eCT + 0.001 L_ll; and L_ll alone, which is not a bound."""


def choose_objective(objective: Objective | str | None) -> tuple[Objective, str]:
    """Return an objective and the reason for it.

    Args:
        objective: an objective, one of ``OBJECTIVES``, or None for the default, the complete bound.

    Raises:
        ValueError: the name is not known.
        TypeError: it is neither a name nor an objective.
    """
    if objective is None:
        return CompleteElbo(), "objective: complete, because this is the bound that bits/dim reports"
    if isinstance(objective, Objective):
        return objective, f"objective: {objective!r}, as given"
    if not isinstance(objective, str):
        raise TypeError(f"objective must be an Objective or a name, got {type(objective).__name__}")
    named = {
        "complete": CompleteElbo(),
        "paper": PaperElbo(passes=1) + 0.001 * CrossEntropy(),
        "cross-entropy": CrossEntropy(),
    }
    if objective not in named:
        raise ValueError(f"objective must be one of {', '.join(OBJECTIVES)}, or an Objective, got {objective!r}")
    return named[objective], f"objective: {objective}, as given"
