"""The formula with matrices, for any kernel: w = p / q(x | .), ratios = w Q."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import PerState, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel, Kernel
from tauleap.reverse.dense_comparison import SMALLEST_IN_FLOAT32, inverse_at
from tauleap.reverse.dense_departures import DenseDepartures
from tauleap.reverse.dense_mixture import DenseMixture, reachable_probs, reachable_states, times
from tauleap.reverse.departures import Departures
from tauleap.reverse.mixture import Mixture
from tauleap.reverse.reversal import Reversal


class DenseReversal(Reversal):
    """With w(x0) = p(x0) / q(x | x0), the ratios are w Q: one product with the kernel."""

    def __init__(self, beta: Tensor, kernel: DenseKernel, jump_rates: DenseKernel, x: States) -> None:
        self.beta, self.kernel, self.jump_rates, self.x = beta, kernel, jump_rates, x

    def reachable(self) -> Tensor | None:
        return reachable_states(self.kernel, self.x)

    def ratios(self, posterior: Posterior) -> PerState:
        probs = reachable_probs(self.kernel, self.x, posterior)
        if self.kernel.smallest < SMALLEST_IN_FLOAT32:
            probs = probs.to(torch.float64)
        inverse = inverse_at(self.kernel, self.x, probs.dtype)
        return self.kernel.propagate(times(inverse, probs)).to(posterior.logits.dtype)

    def jumps(self) -> Mixture:
        return DenseMixture(self.x, self.kernel, self.kernel, self.jump_rates, self.beta)

    def step(self, earlier: Kernel, between: Kernel) -> Mixture:
        earlier, between = _dense(earlier), _dense(between)
        return DenseMixture(self.x, self.kernel, earlier, between, torch.ones((), dtype=torch.float64))

    def departures(self, posterior: Posterior) -> Departures:
        return DenseDepartures(self.x, posterior, self.kernel, self.kernel, self.jump_rates, self.beta, self.kernel)

    def step_departures(self, earlier: Kernel, between: Kernel, posterior: Posterior) -> Departures:
        earlier, between = _dense(earlier), _dense(between)
        away = DenseKernel(between.matrix - torch.diag_embed(between.matrix.diagonal(dim1=-2, dim2=-1)))
        one = torch.ones((), dtype=torch.float64)
        return DenseDepartures(self.x, posterior, self.kernel, earlier, away, one, away)


def _dense(kernel: Kernel) -> DenseKernel:
    if not isinstance(kernel, DenseKernel):
        raise TypeError("a process with a matrix as kernel must have matrices at all times")
    return kernel
