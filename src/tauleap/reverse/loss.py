"""Losses whose value and gradient are computed together, from the logits of every site.

Both are computed in one pass and without a graph, so that the gradient is the only tensor of the size of the logits
that is kept. Logarithms of sums that underflow are taken in log space.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap._precision import full_precision
from tauleap._shapes import PerSite, SiteMask, States
from tauleap.denoise import Posterior
from tauleap.reverse.base import PosteriorExpectation, RateComparison


class LossRequest(NamedTuple):
    """Select the terms of a loss: the divergence, or -weight sum_v c_v log h_v and perhaps sum_v h_v; and its gradient.

    The first sum is called ``signal``, the second ``total``; h are the reverse rates, and c those given x0.
    """

    divergence: bool
    total: bool
    weight: Tensor | None
    gradient: bool


class LossResult(NamedTuple):
    """Hold the numbers of a :class:`LossRequest`; a divergence has no ``total`` and ``signal``."""

    cost: Tensor
    total: Tensor | None
    signal: Tensor | None
    gradient: Tensor | None


class ExpectationOfLogits(PosteriorExpectation):
    """Compute losses by one function of the logits; a subclass defines :meth:`_loss`."""

    @full_precision
    def divergence(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        request = LossRequest(divergence=True, total=True, weight=None, gradient=False)
        return _WithGradient.apply(posterior.logits, self, x0, request)[0]  # pyright: ignore[reportIndexIssue]

    @full_precision
    def compare(
        self,
        x0: States,
        posterior: Posterior,
        *,
        weight: Tensor | None = None,
        total: bool = True,
        scored: SiteMask | None = None,
    ) -> RateComparison:
        request = LossRequest(divergence=False, total=total, weight=weight, gradient=False)
        return RateComparison(*_WithGradient.apply(posterior.logits, self, x0, request))  # pyright: ignore

    @abstractmethod
    def _loss(self, logits: Tensor, x0: States, request: LossRequest, /) -> LossResult:
        """Return the requested comparison; ``logits`` must not be changed."""


class _WithGradient(torch.autograd.Function):
    """Compute one number per site together with its gradient with respect to the logits."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, expectation: ExpectationOfLogits, x0: Tensor, request: LossRequest
    ) -> tuple[Tensor, ...]:
        found = expectation._loss(logits, x0, request._replace(gradient=ctx.needs_input_grad[0]))
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
