"""The rows of the tables: a model, a sampler, and the number of network evaluations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from models import D3PM_STEPS

from tauleap.recipes.images import published_sampler
from tauleap.sampling import Ancestral, Sampler, TauLeaping, Trapezoidal, WithCorrector

sys.path.append(str(Path(__file__).parents[1]))

from _row import Row

BUDGETS = (16, 64, 256)
SWEEP_BUDGET = 64
LARGEST = BUDGETS[-1]


def with_correctors(
    correctors: int, scale: float = 1.5, start: float = 0.1, predictor: Sampler | None = None
) -> tuple[Sampler, int, float]:
    """Return tau-leaping with correctors below ``start``, the evaluations, and the mean evaluations per step."""
    sampler = WithCorrector(predictor or TauLeaping(), steps=correctors, scale=scale, start=start)
    return sampler, LARGEST, 1 + correctors * (start - Row.end) / (1 - Row.end)


CONDITIONAL: dict[str, Any] = {"conditional": True, "over": 0.0}
"""Class-conditional samples: the digit is drawn first, uniformly."""
DISCRETE: dict[str, Any] = CONDITIONAL | {"end": 1 / D3PM_STEPS, "final": "sample", "lattice": D3PM_STEPS}
KINDS = {
    "tldr-0": Row("tau-leaping (tLDR-0)", "gaussian", published_sampler(), LARGEST, **CONDITIONAL),
    "tldr-3": Row("tau-leaping, 3 correctors (tLDR-3)", "gaussian", *with_correctors(3), **CONDITIONAL),
    "tldr-10": Row("tau-leaping, 10 correctors (tLDR-10)", "gaussian", *with_correctors(10), **CONDITIONAL),
    "ancestral": Row("ancestral steps", "gaussian", Ancestral(), LARGEST, **CONDITIONAL),
    "guided": Row("ancestral steps, guidance 2", "gaussian", Ancestral(), LARGEST, guidance=2.0, **CONDITIONAL),
    "unconditional": Row("ancestral steps, unconditional", "gaussian", Ancestral(), LARGEST, over=0.0),
    "early": Row("ancestral steps, small network with the bound alone", "early", Ancestral(), LARGEST, **CONDITIONAL),
    "trapezoidal": Row("trapezoidal", "gaussian", Trapezoidal(), LARGEST, passes=2.0, **CONDITIONAL),
    "d3pm-gaussian": Row("D3PM Gauss", "d3pm-gaussian", Ancestral(), LARGEST, **DISCRETE),
    "d3pm-absorbing": Row("D3PM absorbing", "d3pm-absorbing", Ancestral(), LARGEST, **DISCRETE),
}
SWEEP = {
    f"sweep-{name.split()[0]}-{correctors}-{scale:g}-{start:g}": Row(
        f"{name}, {correctors} of {scale:g} below t = {start:g}",
        "gaussian",
        *with_correctors(correctors, scale, start, predictor),
        **CONDITIONAL,
    ).at(SWEEP_BUDGET)
    for name, predictor, correctors, scale, start in (
        ("tau-leaping", TauLeaping(), 3, 0.5, 0.1),
        ("tau-leaping", TauLeaping(), 4, 0.5, 0.8),
        ("ancestral steps", Ancestral(), 4, 0.5, 0.4),
        ("ancestral steps", Ancestral(), 4, 0.5, 0.8),
        ("ancestral steps", Ancestral(), 2, 0.5, 0.8),
    )
}
ONLY_AT = {"early": (SWEEP_BUDGET,), "guided": BUDGETS[:2], "unconditional": BUDGETS[:2]}
TABLE = {
    f"{name}-{evaluations}": row.at(evaluations)
    for evaluations in BUDGETS
    for name, row in KINDS.items()
    if evaluations in ONLY_AT.get(name, BUDGETS)
}
ROWS = TABLE | SWEEP
