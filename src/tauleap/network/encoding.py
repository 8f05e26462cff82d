"""Integer states as numbers a linear layer can take."""

from __future__ import annotations

import torch
from torch import Tensor


def normalise(x: Tensor, num_states: int, dtype: torch.dtype) -> Tensor:
    """The states 0..S-1 on the line from -1 to 1, for data whose states have an order."""
    # bfloat16 cannot distinguish 256 levels, so the arithmetic is never narrower than float32.
    wide = torch.promote_types(dtype, torch.float32)
    return (x.to(wide) * (2 / (num_states - 1)) - 1).to(dtype)


def one_hot(x: Tensor, num_states: int, dtype: torch.dtype) -> Tensor:
    """(B, *shape) -> (B, *shape, S), directly in ``dtype`` and without the device synchronisation of torch's own."""
    return torch.zeros(*x.shape, num_states, dtype=dtype, device=x.device).scatter_(-1, x.unsqueeze(-1), 1)


def mark(h: Tensor, vector: Tensor, observed: Tensor | None) -> Tensor:
    """Adds a learned vector (width,) to h (B, *shape, width) at the given sites.

    With no mask it adds nothing, but the vector still gets its gradient of zero: training over several processes waits
    for the gradient of every parameter.
    """
    mask = torch.zeros((), dtype=h.dtype, device=h.device) if observed is None else observed.unsqueeze(-1).to(h.dtype)
    return h + mask * vector
