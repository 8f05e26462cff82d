"""The tuning of a model as text and JSON."""

from __future__ import annotations

from typing import Any

from tauleap.sampling import Tuning, UnmaskingTuning

_STEPS = (1, 2, 4, 8, 16, 32, 64)


def tuning_facts(tuning: Tuning) -> dict[str, Any]:
    """Return predicted errors for some numbers of steps, and a tolerance with its number of steps.

    Args:
        tuning: The tuning of a model.
    """
    # Absorbing noise needs no more steps than sites.
    fewer = [steps for steps in _STEPS if not isinstance(tuning, UnmaskingTuning) or steps < tuning.sites]
    errors = {str(steps): tuning.error(steps) for steps in fewer[-4:] or [1]}
    tolerance = float(f"{max(list(errors.values())[-1], 1e-3):.1g}")
    return {
        "kind": tuning.kind,
        "rows": tuning.rows,
        "relative_stderr": tuning.relative_stderr,
        "errors": errors,
        "tolerance": tolerance,
        "steps": tuning.steps(tolerance),
    }


def tuning_line(facts: dict[str, Any]) -> str:
    """Return the predicted errors on one line.

    Args:
        facts: The result of :func:`tuning_facts`.
    """
    errors = ", ".join(f"{error:.3g} in {steps}" for steps, error in facts["errors"].items())
    stderr = "" if facts["relative_stderr"] is None else f" ± {100 * facts['relative_stderr']:.0f} %"
    rows, need = f"{facts['rows']:,} rows{stderr}", f"--tol {facts['tolerance']:g} needs {facts['steps']} steps"
    return f"error {errors} steps, in nats per row ({rows}); {need}"
