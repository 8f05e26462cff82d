"""The paper's computation as written: what the other files of this folder measure against.

A kernel is ``Q exp(Lambda c(t)) Q^-1`` (Section 4.1), one (S, S) matrix a sample, in float32, and the reverse rates are
the formula of Proposition 3: take ``q(x | x0)`` and ``R_t(v, x)`` out of the matrices for every sample, site and state,
and multiply by the kernel once.

    Rhat(v) = R_t(v, x) sum_x0 p(x0 | x) / q(x | x0) q(v | x0)

No structure is used, nothing is kept between calls but the eigendecomposition, and small kernel entries are whatever
float32 makes of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tauleap.noise import ForwardProcess


def by_lists(matrices: Tensor, x: Tensor) -> Tensor:
    """matrices[b, u, x[b, d]] at [b, d, u], from three lists with an index for every entry, as the authors do it."""
    batch, states, _ = matrices.shape
    samples = torch.arange(batch).repeat_interleave(x[0].numel() * states)
    return matrices[samples, torch.arange(states).repeat(x.numel()), x.flatten().repeat_interleave(states)].reshape(
        *x.shape, states
    )


def by_entries(matrices: Tensor, x: Tensor) -> Tensor:
    """The same without the lists: indices of unlike shapes, still one look-up an entry."""
    return matrices[torch.arange(len(x))[:, None, None], torch.arange(matrices.shape[1]), x[..., None]]


def by_columns(matrices: Tensor, x: Tensor) -> Tensor:
    """The same, one look-up a column: as quick as indexing gets."""
    return matrices[torch.arange(len(x))[:, None], :, x]


class DenseRates:
    """The rates of ``process`` with one dense kernel a sample; ``take`` picks the columns of x out of the matrices."""

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
