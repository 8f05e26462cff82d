"""The formula with matrices, for any kernel: w = p / q(x | .), ratios = w Q."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerSite, PerState, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.reversal import Reversal

_SMALLEST_IN_FLOAT32 = 1e-18  # from here on p / q times q stays far inside the range of float32


class DenseReversal(Reversal):
    """With w(x0) = p(x0) / q(x | x0), the ratios are w Q: one product with the kernel."""

    def __init__(self, beta: Tensor, kernel: DenseKernel, jumps: DenseKernel, x: States) -> None:
        self.beta, self.kernel, self.jumps, self.x = beta, kernel, jumps, x

    def reachable(self) -> Tensor | None:
        return self.kernel.columns(self.x, torch.float64) > 0 if self.kernel.has_zeros else None

    def ratios(self, posterior: Posterior) -> PerState:
        return self._ratios(posterior).to(posterior.logits.dtype)

    def rates(self, posterior: Posterior) -> PerState:
        ratios = self._ratios(posterior)
        into = self.jumps.columns(self.x, ratios.dtype).mul_(self._beta(self.x.ndim + 1, ratios.dtype))
        return _times(into, ratios).to(posterior.logits.dtype)

    def exit_rate(self, posterior: Posterior) -> PerSite:
        probs = self._probs(posterior)
        exits = self.kernel.select(self._exit_table(probs.dtype), self.x)
        return torch.linalg.vecdot(probs, exits) * self._beta(self.x.ndim, probs.dtype)

    def draw_destination(self, posterior: Posterior, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        # The rate is a mixture over x0 of the rates that would hold if x0 were known: draw x0 with the share that it
        # has in the exit rate, then the destination given x0. No product with the kernel is made.
        x, samples = self.x.reshape(-1)[chosen], chosen // self.x[0].numel()
        logits = posterior.logits.reshape(-1, posterior.logits.shape[-1])[chosen]
        exits = self.kernel.select(self._exit_table(torch.float64), x, samples)
        possible = self.kernel.select(self._inverse_table(torch.float64), x, samples) > 0
        x0 = _draw.categorical(Posterior(logits.double()).restricted(possible).probs * exits, generator)
        onward = self.kernel.select(self.kernel.matrix, x0, samples)
        return _draw.categorical(onward * self.jumps.columns(x, torch.float64), generator)

    def _ratios(self, posterior: Posterior) -> PerState:
        """In float64 where p / q leaves the range of a narrower dtype."""
        probs = self._probs(posterior)
        if self.kernel.smallest < _SMALLEST_IN_FLOAT32:
            probs = probs.to(torch.float64)
        inverse = self.kernel.select(self._inverse_table(probs.dtype), self.x)
        return self.kernel.propagate(_times(inverse, probs))

    def _probs(self, posterior: Posterior) -> PerState:
        reachable = self.reachable()
        return posterior.probs if reachable is None else posterior.restricted(reachable).probs

    def _inverse_table(self, dtype: torch.dtype) -> Tensor:
        """1 / q(x | x0) at [x, x0], 0 where x cannot be reached."""

        def make() -> Tensor:
            columns = self.kernel.matrix.mT
            return torch.where(columns > 0, 1 / columns, 0.0)

        return self.kernel.table("inverse", dtype, make)

    def _exit_table(self, dtype: torch.dtype) -> Tensor:
        """sum_v R_b(v, x) q(v | x0) / q(x | x0) at [x, x0]: the exit rate if x0 were known."""
        matrix = self.kernel.matrix
        return self.kernel.table(
            "exit", dtype, lambda: (matrix @ self.jumps.matrix).mT * self._inverse_table(torch.float64)
        )

    def _beta(self, ndim: int, dtype: torch.dtype) -> Tensor:
        return along_batch(self.beta, ndim).to(dtype).to(self.x.device)


def _times(fresh: Tensor, other: Tensor) -> Tensor:
    """fresh * other, in the memory of ``fresh``, which nobody else holds, where no gradient needs it."""
    return fresh * other if other.requires_grad else fresh.mul_(other)
