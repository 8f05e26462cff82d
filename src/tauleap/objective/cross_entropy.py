"""Direct supervision of the denoiser."""

from __future__ import annotations

from typing import Literal

from tauleap.objective.noised_batch import LossBatch, Pass
from tauleap.objective.objective import Loss, Objective, check_times
from tauleap.objective.times import Times, UniformTimes


class CrossEntropy(Objective):
    """Compute the cross-entropy of the denoiser, L_ll = T E_t E_{x ~ q_t|0} [-log p(x0 | x)] (Appendix D).

    The true posterior minimises it. It is not a bound on the likelihood, for any weight.

    It needs no network evaluation of its own: added to other objectives, it uses the state at which they evaluate the
    network, x ~ q_t if any of them does. Only if it is added to ``PaperElbo(passes=1)`` alone does it use the paper's
    x~ instead of x, as the authors' program does: one site of x~ has jumped once more, and the rest is x. Its minimum
    is then the posterior given x~, not the true posterior given x.

    Args:
        reduction: ``"sum"`` adds up the sites as published, with lambda = 0.001; ``"mean"`` divides by their number, as
            the authors' program does. Default: "sum".
        times: The distribution of the times. Default: None, U(0.01, 1) or that of the objectives that it is added to.

    >>> CrossEntropy("mean")
    CrossEntropy("mean")
    """

    needs: frozenset[Pass] = frozenset()

    def __init__(self, reduction: Literal["sum", "mean"] = "sum", *, times: Times | None = None) -> None:
        if reduction not in ("sum", "mean"):
            raise ValueError(f'reduction must be "sum" or "mean", got {reduction!r}')
        self.reduction = reduction
        self.times = check_times(times)

    def evaluate(self, batch: LossBatch) -> Loss:
        which: Pass = "x_t" if "x_t" in batch.passes else "x_tilde"
        value = -batch.sum(batch.at(which).log_prob(batch.x0))
        if self.reduction == "mean":
            value = value / batch.count.to(value.device).clamp(min=1)
        value = batch.mean_over_time(value)
        return Loss(value, {"cross_entropy": value})

    def __repr__(self) -> str:
        settings = [] if self.reduction == "sum" else [f'"{self.reduction}"']
        if self.times not in (None, UniformTimes()):
            settings.append(f"times={self.times!r}")
        return f"CrossEntropy({', '.join(settings)})"
