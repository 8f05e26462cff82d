"""MDLM's loss and its update by the Gumbel trick, written plainly after the published code (Sahoo et al. 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

_NEVER = -1e6


def log_probs(logits: Tensor, x: Tensor, mask: int) -> Tensor:
    """Return log p(x0 | x) of all states: never the mask, and at a site that is not masked its own state (SUBS)."""
    logits = logits.clone()
    logits[..., mask] += _NEVER
    logits = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    unmasked = x != mask
    logits[unmasked] = _NEVER
    logits[unmasked, x[unmasked]] = 0.0
    return logits


def loss(logits: Tensor, x: Tensor, x0: Tensor, mask: int, weight: float) -> Tensor:
    """Return the mean of the loss of a batch, -alpha' / (1 - alpha) log p(x0 | x) at all sites."""
    found = torch.gather(log_probs(logits, x, mask), -1, x0[..., None]).squeeze(-1)
    return -(weight * found).mean()


def step(logits: Tensor, x: Tensor, mask: int, masked_t: float, masked_s: float) -> Tensor:
    """Return the states after a step, drawn at all sites by one Gumbel variable per state."""
    probs = log_probs(logits, x, mask).exp() * (masked_t - masked_s)
    probs[..., mask] = masked_s
    gumbel = 1e-10 - (torch.rand_like(probs) + 1e-10).log()
    drawn = (probs / gumbel).argmax(-1)
    return torch.where(x != mask, x, drawn)
