"""log p of one state a site: what direct supervision needs of all S logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, States


def log_prob(logits: PerState, x0: States) -> PerSite:
    """``logits.log_softmax(-1)`` at the states x0, without that tensor: nothing new of size S is kept for the gradient.

    >>> log_prob(torch.zeros(1, 4), torch.tensor([2]))
    tensor([-1.3863])
    """
    return _LogProb.apply(logits.reshape(-1, logits.shape[-1]), x0.reshape(-1)).view(x0.shape)


class _LogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor) -> Tensor:
        total = logits.new_empty(len(logits))
        for part in chunks(len(logits), logits.shape[-1], logits.device):
            torch.logsumexp(logits[part], -1, out=total[part])
        ctx.save_for_backward(logits, x0, total)
        return logits.gather(-1, x0[:, None]).squeeze(-1).sub_(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        logits, x0, total = ctx.saved_tensors
        out = torch.empty_like(logits)
        for part in chunks(len(logits), logits.shape[-1], logits.device):
            torch.sub(logits[part], total[part, None], out=out[part]).exp_().mul_(-gradient[part, None])
        return out.scatter_add_(-1, x0[:, None], gradient[:, None]), None
