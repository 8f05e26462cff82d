"""The paper's own objectives, as published."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device
from tauleap.noise.kernel import along_batch
from tauleap.objective.noised_batch import LossBatch, Pass
from tauleap.objective.objective import Loss, Objective, check_times
from tauleap.objective.times import Times, UniformTimes


class PaperElbo(Objective):
    """Compute L_CT or L_eCT as published, in factorised form and without constants.

    See Proposition 2 and Appendices C.3 and C.4.

        L_CT = T E_{t, x ~ q_t|0} [sum_d sum_{v != x^d} Rhat^d(x, v)]                                        "outflow"
               - T E_{t, x~ ~ psi_t} [sum_d sum_{v != x~^d} phi(v | x~) Z(x~ with d at v) log Rhat^d(x~, v)]   "signal"

    Here x~ is x after one more forward jump, Z(x) the rate at which x jumps, and the sum over the state from which it
    jumped is taken in closed form: phi Z is ``C_v / N``, with C the reverse rates given x0 and ``N = sum_d sum_v
    C_v / Z(x~ with d at v)``.

    The value is not a bound, since the constants are missing; the gradient of L_CT is that of ``CompleteElbo`` up to
    the factor 1 - eps that the paper omits. All sums are over the sites that have a loss. Where x cannot jump any more
    (all masked), the signal is 0.

    Args:
        passes: 2 evaluates the network at x and x~ (together) and is L_CT. 1 replaces x by x~ in the first sum too and
            is L_eCT, with which the paper trains: cheaper, and biased, since x~ has one jump too many.
        times: The distribution of the times. Default: None, U(0.01, 1) or that of the objectives that it is added to.

    >>> PaperElbo(passes=1)
    PaperElbo(passes=1)
    """

    integrates = True

    def __init__(self, passes: Literal[1, 2], *, times: Times | None = None) -> None:
        if type(passes) is not int or passes not in (1, 2):
            raise ValueError(f"passes must be 2 (L_CT: x and x~) or 1 (L_eCT: x~ for both terms), got {passes!r}")
        self.passes = passes
        self.times = check_times(times, integral=self)

    @property
    def needs(self) -> frozenset[Pass]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return frozenset({"x_tilde"}) if self.passes == 1 else frozenset({"x_t", "x_tilde"})

    def evaluate(self, batch: LossBatch) -> Loss:
        at, weight = batch.at("x_tilde"), self._signal_weight(batch)
        found = at.expected_rates.compare(
            batch.x0, at.posterior, weight=weight, total=self.passes == 1, scored=at.scored
        )
        signal = -weight.to(found.signal.dtype) * batch.sum(found.signal)
        if self.passes == 1:
            outflow, value = batch.sum(found.total), batch.sum(found.cost)
        else:
            outflow = batch.sum(batch.at("x_t").exit_rate)
            value = outflow + batch.sum(found.cost)
        value, outflow, signal = (batch.mean_over_time(part) for part in (value, outflow, signal))
        return Loss(value, {"outflow": outflow, "signal": signal})

    def _signal_weight(self, batch: LossBatch) -> Float[Tensor, " batch"]:
        """Return 1 / N in float64, and 0 where no site can jump."""
        process, x = batch.reverse.process, batch.x_tilde
        dtype = _device.widest_dtype(x.device)
        exits = process.exit_rate(x, batch.t, dtype=dtype).masked_fill(~batch.scored, 0.0)
        total = exits.reshape(len(x), -1).sum(-1)
        rates = process.base_exit_rates().to(dtype).to(x.device)[None]
        leaving = along_batch(process.schedule.rate(batch.t).to(dtype).to(x.device), rates.ndim) * rates
        leaving = leaving.expand(len(x), *rates.shape[1:])
        norm = batch.sum(batch.at("x_tilde").expected_rates.given_among(batch.x0, leaving, total))
        return torch.where(batch.can_jump.to(norm.device) & (norm > 0), 1 / norm, 0.0)

    def __repr__(self) -> str:
        times = "" if self.times in (None, UniformTimes()) else f", times={self.times!r}"
        return f"PaperElbo(passes={self.passes}{times})"
