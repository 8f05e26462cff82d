"""The rows of the tables and the points of the curves: a model, a sampler, and how often the network is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from models import D3PM_STEPS, SHIPPED
from torch import Tensor

from tauleap.recipes.music import published_sampler
from tauleap.sampling import Ancestral, Sampler, Trapezoidal, uniform_grid

BUDGET = 250
CURVE = (16, 32, 64, 128, 500)


@dataclass(frozen=True)
class Row:
    """Completions of the test songs by one model and one sampler, with ``evaluations`` passes for each."""

    label: str
    model: str
    sampler: Sampler
    evaluations: int
    passes: float = 1.0
    """Of a step, on average."""
    end: float = 0.01
    final: Literal["mode", "sample"] = "mode"

    @property
    def grid(self) -> Tensor:
        """As many steps as the evaluations allow, one of which is for the end."""
        return uniform_grid(max(1, round((self.evaluations - 1) / self.passes)), end=self.end)


# Every jump is from one category to another, whatever the noise (Appendix H.3).
LEAPS = published_sampler()
CORRECTED = published_sampler(correctors=2)

TABLE = {
    "uniform": Row("tau-leaping, uniform", "uniform-ect", LEAPS, BUDGET),
    "birth-death": Row("tau-leaping, birth/death", "birth-death-ect", LEAPS, BUDGET),
    # Two correctors a step for nine tenths of the steps.
    "correctors": Row("tau-leaping with 2 correctors, uniform", "uniform-ect", CORRECTED, BUDGET, passes=2.8),
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
    {"ancestral-991": Row("ancestral steps, uniform", "uniform-ect", Ancestral(), 991)}
    | {
        f"{name}-{evaluations}": Row(TABLE[name].label, TABLE[name].model, TABLE[name].sampler, evaluations)
        for evaluations in CURVE
        for name in ("uniform", "ancestral")
    }
    | {
        f"shipped-{evaluations}": Row(
            TABLE["shipped"].label, SHIPPED, Ancestral(), evaluations, end=0.001, final="sample"
        )
        for evaluations in CURVE[:4]
    }
)

ROWS = TABLE | CURVES
