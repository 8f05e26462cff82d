"""The paper's computation as written, the reference of the other files of this folder.

A kernel is ``Q exp(Lambda c(t)) Q^-1`` (Section 4.1), one (S, S) matrix per sample, in float32, and the reverse rates
are the formula of Proposition 3: take ``q(x | x0)`` and ``R_t(v, x)`` out of the matrices for every sample, site and
state, and multiply by the kernel once.

    Rhat(v) = R_t(v, x) sum_x0 p(x0 | x) / q(x | x0) q(v | x0)

No structure is used, only the eigendecomposition is cached between calls, and small kernel entries have the rounding
errors of float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tauleap.noise import ForwardProcess


def by_lists(matrices: Tensor, x: Tensor) -> Tensor:
    """Return matrices[b, u, x[b, d]] at [b, d, u] by three lists with an index per entry, as in the authors' code."""
    batch, states, _ = matrices.shape
    samples = torch.arange(batch).repeat_interleave(x[0].numel() * states)
    return matrices[samples, torch.arange(states).repeat(x.numel()), x.flatten().repeat_interleave(states)].reshape(
        *x.shape, states
    )


def by_entries(matrices: Tensor, x: Tensor) -> Tensor:
    """Return the same without lists: by broadcast indices, still one look-up per entry."""
    return matrices[torch.arange(len(x))[:, None, None], torch.arange(matrices.shape[1]), x[..., None]]


def by_columns(matrices: Tensor, x: Tensor) -> Tensor:
    """Return the same with one look-up per column, the fastest indexing."""
    return matrices[torch.arange(len(x))[:, None], :, x]


class DenseRates:
    """The rates of ``process`` with one dense kernel per sample; ``take`` selects the columns of x in the matrices."""

    def __init__(self, process: ForwardProcess, take: Callable[[Tensor, Tensor], Tensor] = by_lists) -> None:
        self.schedule, self.take = process.schedule, take
        generator = process.generator()
        if torch.equal(generator, generator.mT):
            values, vectors = torch.linalg.eigh(generator)
        else:
            values, vectors = (part.real for part in torch.linalg.eig(generator))
        self.generator, self.eigenvalues, self.vectors = generator.float(), values.float(), vectors.float()
        self.inverse = torch.linalg.inv(vectors).float()

    def kernels(self, t: Tensor) -> Tensor:
        """q_t|0, (B, S, S), for times ``t`` (B,)."""
        decay = torch.exp(self.eigenvalues * self.schedule.total(t)[:, None])
        return self.vectors @ torch.diag_embed(decay) @ self.inverse

    def rates(self, logits: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Rhat_t(x, .) from ``logits`` (B, *shape, S), ``x`` (B, *shape) and ``t`` (B,)."""
        sites = x.reshape(len(x), -1)
        kernels = self.kernels(t)
        forward = self.schedule.rate(t)[:, None, None] * self.generator
        probs = logits.reshape(*sites.shape, -1).softmax(-1)
        rates = self.take(forward, sites) * ((probs / self.take(kernels, sites)) @ kernels)
        return rates.scatter_(-1, sites[..., None], 0.0).reshape(logits.shape)
