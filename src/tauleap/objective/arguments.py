"""Arguments of a loss with one entry per sample or site: conditions, and masks of missing values."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap._shapes import SiteMask, States


def has_rows(condition: Tensor, batch: int) -> bool:
    """Return whether a condition has one row per sample, judged by its length."""
    return condition.ndim > 0 and len(condition) == batch


def check_missing(missing: Tensor, x0: States, *, name: str = "x0") -> SiteMask:
    """Return the mask in the shape of ``x0``, which messages call ``name``."""
    if not isinstance(missing, Tensor) or missing.dtype != torch.bool:
        given = missing.dtype if isinstance(missing, Tensor) else type(missing).__name__
        raise TypeError(f"missing must be a bool tensor, true where the value is unknown, got {given}")
    if missing.shape != x0.shape and missing.shape != x0.shape[1:]:
        raise ValueError(
            f"missing must have the shape of {name}, {tuple(x0.shape)}, or of one sample, {tuple(x0.shape[1:])}, "
            f"got {tuple(missing.shape)}"
        )
    return missing.expand(x0.shape).contiguous()
