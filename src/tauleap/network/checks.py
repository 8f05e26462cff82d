"""Checks of the arguments of the networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tauleap import _check


def check_sizes(**sizes: int) -> None:
    """Raises unless every named size is a whole number above 0."""
    for name, size in sizes.items():
        _check.integer(name, size, least=1)


def check_even(**sizes: int) -> None:
    """Raises unless every named size is an even number above 0."""
    for name, size in sizes.items():
        if _check.integer(name, size, least=2) % 2:
            raise ValueError(f"{name} must be even, got {size!r}")


def check_shape(shape: Sequence[int], name: str = "shape") -> tuple[int, ...]:
    """The shape as a tuple; raises unless it is one or more whole numbers above 0."""
    if not isinstance(shape, Sequence) or not shape:
        raise ValueError(f"{name} must be one or more whole numbers, as (2,) or (3, 32, 32), got {shape!r}")
    return tuple(_check.integer(f"every entry of {name}", side, least=1) for side in shape)


def check_heads(width: int, heads: int) -> None:
    """Raises unless the heads share the width equally."""
    check_sizes(width=width, heads=heads)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")


def check_dropout(dropout: float) -> None:
    """Raises unless 0 <= dropout < 1."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout!r}")


def check_call(x: Tensor, t: Tensor, observed: Tensor | None) -> None:
    """Raises where dtypes and shapes do not fit each other; values are not looked at."""
    if x.is_floating_point() or x.dtype == torch.bool:
        raise TypeError(f"x must hold integers, the states 0..S-1, got {x.dtype}: write x.long()")
    if not t.is_floating_point():
        raise TypeError(f"t must be floating, as times lie between 0 and 1, got {t.dtype}")
    if t.ndim > 1 or (t.ndim == 1 and t.shape[0] != x.shape[0]):
        raise ValueError(f"t must be a scalar or of shape ({x.shape[0]},) like the batch, got {tuple(t.shape)}")
    if observed is not None and (observed.dtype != torch.bool or observed.shape != x.shape):
        raise ValueError(
            f"observed must be a bool mask of x's shape {tuple(x.shape)}, "
            f"got {observed.dtype} of shape {tuple(observed.shape)}"
        )
