"""The rows of the tables: a model, a sampler, and how often the network is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from models import D3PM_STEPS
from torch import Tensor

from tauleap.recipes.images import published_sampler
from tauleap.sampling import Ancestral, Sampler, TauLeaping, Trapezoidal, WithCorrector, uniform_grid

BUDGETS = (16, 64, 256)
END = 0.01


@dataclass(frozen=True)
class Row:
    """Samples of one model by one sampler, with about ``evaluations`` passes for each."""

    label: str
    model: str
    sampler: Sampler
    evaluations: int
    passes: float = 1.0
    """Of a step, on average."""
    end: float = END
    final: Literal["mode", "sample"] = "mode"

    @property
    def grid(self) -> Tensor:
        """As many steps as the evaluations allow, one of which is for the end."""
        return uniform_grid(max(1, round((self.evaluations - 1) / self.passes)), end=self.end)


def corrected(correctors: int, scale: float = 1.5, start: float = 0.1) -> tuple[Sampler, float]:
    """Tau-leaping with correctors below ``start``, and the passes of a step on average."""
    sampler = WithCorrector(TauLeaping(), steps=correctors, scale=scale, start=start)
    return sampler, 1 + correctors * (start - END) / (1 - END)


@dataclass(frozen=True)
class Kind:
    label: str
    model: str
    sampler: Sampler
    passes: float = 1.0
    end: float = END
    final: Literal["mode", "sample"] = "mode"


KINDS = {
    "tldr-0": Kind("tau-leaping (tLDR-0)", "gaussian", published_sampler()),
    "tldr-3": Kind("tau-leaping, 3 correctors (tLDR-3)", "gaussian", *corrected(3)),
    "tldr-10": Kind("tau-leaping, 10 correctors (tLDR-10)", "gaussian", *corrected(10)),
    "ancestral": Kind("ancestral steps", "gaussian", Ancestral()),
    "trapezoidal": Kind("trapezoidal", "gaussian", Trapezoidal(), 2.0),
    "d3pm-gaussian": Kind("D3PM Gauss", "d3pm-gaussian", Ancestral(), end=1 / D3PM_STEPS, final="sample"),
    "d3pm-absorbing": Kind("D3PM absorbing", "d3pm-absorbing", Ancestral(), end=1 / D3PM_STEPS, final="sample"),
}
SWEEP = {
    f"sweep-{correctors}-{scale:g}-{start:g}": Kind(
        f"{correctors} correctors of {scale:g} below t = {start:g}", "gaussian", *corrected(correctors, scale, start)
    )
    for correctors, scale, start in ((1, 0.5, 0.1), (3, 0.5, 0.1), (1, 0.5, 0.5), (3, 0.5, 0.5), (1, 1.5, 1.0))
}
SWEEP_BUDGET = 64

TABLE = {
    f"{name}-{evaluations}": Row(kind.label, kind.model, kind.sampler, evaluations, kind.passes, kind.end, kind.final)
    for evaluations in BUDGETS
    for name, kind in KINDS.items()
}
ROWS = TABLE | {
    name: Row(kind.label, kind.model, kind.sampler, SWEEP_BUDGET, kind.passes) for name, kind in SWEEP.items()
}
