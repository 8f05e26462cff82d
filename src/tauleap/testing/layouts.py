"""The same values in other memory layouts, as users pass them: permuted axes, every second entry, one row repeated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _permuted(x: Tensor) -> Tensor:
    axes = tuple(reversed(range(x.ndim)))
    return x.permute(axes).contiguous().permute(axes)


def _strided(x: Tensor) -> Tensor:
    return torch.stack((x, x), -1)[..., 0]


def _expanded(x: Tensor) -> Tensor:
    return x[:1].expand(x.shape)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {"permuted": _permuted, "strided": _strided, "expanded": _expanded}
"""Each takes a tensor with a batch axis; ``expanded`` repeats its first row, the others keep all values.

>>> LAYOUTS["permuted"](torch.arange(6).reshape(2, 3)).stride()
(1, 2)
"""
