"""log p of one state per row of logits, without a tensor of the logits' size that is kept for the gradient."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap import _device
from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, States


def log_prob(logits: PerState, x0: States) -> PerSite:
    """Return ``logits.log_softmax(-1)`` at the states x0, without keeping a tensor of that size for the gradient.

    >>> log_prob(torch.zeros(1, 4), torch.tensor([2]))
    tensor([-1.3863])
    """
    return log_prob_of_rows(logits.reshape(-1, logits.shape[-1]), x0.reshape(-1)).view(x0.shape)


def log_prob_of_rows(
    logits: Float[Tensor, "rows states"],
    x0: Int64[Tensor, " n"],
    chosen: Int64[Tensor, " n"] | None = None,
    allowed: Bool[Tensor, " states"] | None = None,
) -> Float[Tensor, " n"]:
    """Return log p of one state per chosen row. Only these rows are read, a block of them at a time.

    Args:
        logits: Unnormalised log-probabilities.
        x0: The states.
        chosen: The rows. Default: all, in their order.
        allowed: The states that have a probability. Default: all.

    >>> log_prob_of_rows(torch.zeros(3, 4), torch.tensor([0]), torch.tensor([2]), torch.arange(4) < 2)
    tensor([-0.6931])
    """
    return _LogProb.apply(logits, x0, chosen, allowed)


def without(rows: Tensor, allowed: Tensor | None, value: float) -> Tensor:
    """Set the states of rows (n, S) that are not allowed to ``value``, in place, and return the rows.

    Args:
        rows: One number per row and state.
        allowed: The other states, (S,); None for all.
        value: The number to write.
    """
    if allowed is None:
        return rows
    if _device.is_host(rows.device):  # a few columns instead of a comparison per entry
        return rows.index_fill_(1, (~allowed).nonzero().squeeze(-1), value)
    return rows.masked_fill_(~allowed, value)


class _LogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor, chosen: Tensor | None, allowed: Tensor | None) -> Tensor:
        total = logits.new_empty(len(x0))
        for part in chunks(len(x0), logits.shape[-1], logits.device):
            rows = logits[part] if chosen is None else logits.index_select(0, chosen[part])
            if allowed is not None:
                rows = without(rows.clone() if chosen is None else rows, allowed, float("-inf"))
            torch.logsumexp(rows, -1, out=total[part])
        ctx.save_for_backward(logits, x0, total, chosen, allowed)
        own = logits.gather(-1, x0[:, None]).squeeze(-1) if chosen is None else logits[chosen, x0]
        if allowed is not None:
            own = own.masked_fill_(~allowed[x0], float("-inf"))
        return own.sub_(total)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None, None, None]:
        logits, x0, total, chosen, allowed = ctx.saved_tensors
        out = torch.empty_like(logits) if chosen is None else torch.zeros_like(logits)
        for part in chunks(len(x0), logits.shape[-1], logits.device):
            if chosen is None:
                rows = torch.sub(logits[part], total[part, None], out=out[part])
            else:
                rows = logits.index_select(0, chosen[part]).sub_(total[part, None])
            without(rows.exp_().mul_(-gradient[part, None]), allowed, 0.0)
            rows.scatter_add_(-1, x0[part, None], gradient[part, None])
            if chosen is not None:
                out.index_add_(0, chosen[part], rows)
        return out, None, None, None
