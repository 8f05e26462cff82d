"""What the reverse process says is linear in p(x0 | x): a mixture of what it would say if x0 were known.

    h_v = sum_x0 p(x0 | x) c_v(x0)

Reverse rates are of this kind, with ``c_v(x0) = R_t(v, x) q(v | x0) / q(x | x0)`` and nothing at x itself, and so are
the probabilities of a step to an earlier time. An objective compares h with what it should be, c at the true x0:

    sum_v h_v - c_v + c_v log(c_v / h_v)  >=  0,        and 0 only where h = c

(for rates the relative entropy of two jump processes, for probabilities the Kullback-Leibler divergence). The value
and its gradient in the logits are worked out together, in one pass and without a graph, so that nothing of the size of
the logits is kept but the gradient itself; logarithms of sums that underflow are taken in log space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap import _device
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, PerState, States
from tauleap.denoise import Posterior
from tauleap.noise.kernel import along_batch


class Comparison(NamedTuple):
    """A mixture against the truth, one number a site."""

    cost: PerSite
    """``total - weight * signal``, or ``-weight * signal``: differentiable in the logits."""
    total: PerSite
    """sum_v h_v."""
    signal: PerSite
    """sum_v c_v log h_v."""


class Wanted(NamedTuple):
    """What is to be worked out: the divergence, or ``[total] - weight * signal``; and whether its gradient too."""

    divergence: bool
    total: bool
    weight: Tensor | None
    gradient: bool


class Worked(NamedTuple):
    """The answer for some of the samples; ``total`` and ``signal`` are not there for a divergence."""

    cost: Tensor
    total: Tensor | None
    signal: Tensor | None
    gradient: Tensor | None

    def to(self, dtype: torch.dtype) -> Worked:
        return Worked(*(None if part is None else part.to(dtype) for part in self))  # pyright: ignore


class Mixture(ABC):
    """h as a function of p, at given states x and times."""

    x: States

    @abstractmethod
    def mixed(self, posterior: Posterior) -> PerState:
        """h, in the dtype of the logits."""

    @abstractmethod
    def known(self, x0: States, dtype: torch.dtype) -> PerState:
        """c(x0): h if x0 were known."""

    @full_precision
    def known_among(self, x0: States, leaving: Tensor, total: Tensor) -> PerSite:
        """``sum_v c_v(x0) / (leaving_v + total - leaving_x)``, 0 where c is.

        ``leaving`` is the rate at which a site jumps out of each state, (batch, S) or (batch, *shape, S), and ``total``
        (batch,) that of all sites together where they are: the divisor is that rate once this site is at v.
        """
        known = self.known(x0, leaving.dtype)
        leaving = leaving.reshape(len(leaving), *(1,) * (known.ndim - leaving.ndim), *leaving.shape[1:])
        elsewhere = along_batch(total, known.ndim) - leaving.expand(known.shape).gather(-1, self.x[..., None])
        divisor = leaving + elsewhere.clamp(min=0.0)
        return torch.where(known > 0, known / divisor, 0.0).sum(-1)

    @full_precision
    def divergence(self, x0: States, posterior: Posterior) -> PerSite:
        """sum_v h_v - c_v + c_v log(c_v / h_v)."""
        wanted = Wanted(divergence=True, total=True, weight=None, gradient=False)
        return _WithGradient.apply(posterior.logits, self, x0, wanted)[0]  # pyright: ignore[reportIndexIssue]

    @full_precision
    def compare(
        self, x0: States, posterior: Posterior, *, weight: Tensor | None = None, total: bool = True
    ) -> Comparison:
        """``sum_v h_v - weight sum_v c_v log h_v`` and its parts, with ``weight`` (batch,), 1 if absent.

        Without ``total`` the cost is that of the signal alone.
        """
        wanted = Wanted(divergence=False, total=total, weight=weight, gradient=False)
        return Comparison(*_WithGradient.apply(posterior.logits, self, x0, wanted))  # pyright: ignore

    @abstractmethod
    def _worked(self, logits: Tensor, x0: States, wanted: Wanted) -> Worked:
        """The comparison; ``logits`` must not be changed."""


def blocks(rows: Tensor, entries: int) -> Iterator[slice]:
    """``rows`` (n, ...) in blocks of about so many entries, all nearly of a size; but all at once unless on a CPU."""
    count = -(-rows.numel() // entries) if _device.is_host(rows.device) else 1
    length = rows.shape[0]
    size = -(-length // max(1, min(length, count)))
    return (slice(start, min(start + size, length)) for start in range(0, length, max(1, size)))


class _WithGradient(torch.autograd.Function):
    """A number a site whose gradient in the logits is known by the time it is."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, mixture: Mixture, x0: Tensor, wanted: Wanted) -> tuple[Tensor, ...]:
        found = mixture._worked(logits, x0, wanted._replace(gradient=ctx.needs_input_grad[0]))
        ctx.save_for_backward(found.gradient)
        parts = [part for part in (found.total, found.signal) if part is not None]
        ctx.mark_non_differentiable(*parts)
        return found.cost, *parts

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0][..., None], None, None, None
