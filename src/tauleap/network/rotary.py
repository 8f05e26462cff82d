"""Rotary positions (Su et al. 2021): attention then depends on how far apart two sites are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rotation(NamedTuple):
    """Rotate pairs of features by an angle proportional to the position."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def of_length(cls, length: int, size: int, like: Tensor) -> Rotation:
        """Return the rotation for ``length`` positions and heads of an even ``size``, like the tensor ``like``."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        frequencies = 10000.0 ** -torch.arange(0, 1, 2 / size, device=like.device, dtype=dtype)
        angles = torch.arange(length, device=like.device, dtype=dtype).unsqueeze(-1) * frequencies
        return cls(angles.cos().to(like.dtype), angles.sin().to(like.dtype))

    # A method with a name: torch.compile of PyTorch 2.6 cannot trace the call of a tuple.
    def rotate(self, h: Tensor) -> Tensor:
        """Return the features of ``h``, (..., length, size), rotated by the angles of their positions."""
        a, b = h.chunk(2, dim=-1)
        return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), dim=-1)
