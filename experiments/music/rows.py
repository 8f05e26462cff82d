"""The rows of the tables and curves: a model, a sampler, and the number of network evaluations."""

from __future__ import annotations

import sys
from pathlib import Path

from models import D3PM_STEPS, SHIPPED

from tauleap.recipes.music import published_sampler
from tauleap.sampling import Ancestral, Trapezoidal

sys.path.append(str(Path(__file__).parents[1]))

from _row import Row

BUDGET = 250
CURVE = (16, 32, 64, 128, 500)

# States are categories for every noise, so a site may jump only once per step (Appendix H.3).
LEAPS = published_sampler()
LEAPS_WITH_CORRECTORS = published_sampler(correctors=2)

TABLE = {
    "uniform": Row("tau-leaping, uniform", "uniform-ect", LEAPS, BUDGET),
    "birth-death": Row("tau-leaping, birth/death", "birth-death-ect", LEAPS, BUDGET),
    # Two correctors per step for nine tenths of the steps.
    "correctors": Row(
        "tau-leaping with 2 correctors, uniform", "uniform-ect", LEAPS_WITH_CORRECTORS, BUDGET, passes=2.8
    ),
    "d3pm": Row("D3PM, uniform", "d3pm", Ancestral(), D3PM_STEPS, end=1 / D3PM_STEPS, final="sample"),
    "complete": Row("tau-leaping, uniform, trained with the complete bound", "uniform-complete", LEAPS, BUDGET),
    "ancestral": Row("ancestral steps, uniform", "uniform-ect", Ancestral(), BUDGET),
    "trapezoidal": Row("trapezoidal, uniform", "uniform-ect", Trapezoidal(), BUDGET, passes=2.0),
    "two-passes": Row("tau-leaping, uniform, trained with L_CT", "uniform-ct", LEAPS, BUDGET),
    "shipped": Row("ancestral steps, the shipped model", SHIPPED, Ancestral(), BUDGET, end=0.001, final="sample"),
    # 990 steps from 1 to 0.01.
    "uniform-991": Row("tau-leaping, uniform, tau = 0.001", "uniform-ect", LEAPS, 991),
}

CURVES = (
    {"ancestral-991": TABLE["ancestral"].at(991)}
    | {f"{name}-{number}": TABLE[name].at(number) for number in CURVE for name in ("uniform", "ancestral")}
    | {f"shipped-{number}": TABLE["shipped"].at(number) for number in CURVE[:4]}
)

ROWS = TABLE | CURVES
