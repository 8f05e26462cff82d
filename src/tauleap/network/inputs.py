"""The inputs of a network: checks of sizes and calls, states as numbers, and time as a vector that modulates features.

States become numbers that a linear layer can take. Time becomes sines and cosines (Vaswani et al. 2017; Ho et al.
2020), then a vector, which scales and shifts features (feature-wise linear modulation, Perez et al. 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tauleap import _check

TIME_SCALE = 1000.0
"""Times in [0, 1] become positions in [0, 1000]: the wavelengths of ``sinusoidal`` were chosen for about 1000 steps."""


def check_sizes(**sizes: int) -> None:
    """Raise an error unless every named size is a whole number above 0."""
    for name, size in sizes.items():
        _check.integer(name, size, least=1)


def check_even(**sizes: int) -> None:
    """Raise an error unless every named size is an even number above 0."""
    for name, size in sizes.items():
        if _check.integer(name, size, least=2) % 2:
            raise ValueError(f"{name} must be even, got {size!r}")


def check_shape(shape: Sequence[int], name: str = "shape") -> tuple[int, ...]:
    """Return the shape as a tuple; raise an error unless it is one or more whole numbers above 0."""
    if not isinstance(shape, Sequence) or not shape:
        raise ValueError(f"{name} must be one or more whole numbers, as (2,) or (3, 32, 32), got {shape!r}")
    return tuple(_check.integer(f"every entry of {name}", side, least=1) for side in shape)


def check_heads(width: int, heads: int) -> None:
    """Raise an error unless the heads share the width equally."""
    check_sizes(width=width, heads=heads)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")


def check_dropout(dropout: float) -> None:
    """Raise an error unless 0 <= dropout < 1."""
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout!r}")


def check_call(x: Tensor, t: Tensor, observed: Tensor | None) -> None:
    """Raise an error if dtypes or shapes do not match; values are not checked."""
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


def normalise(x: Tensor, num_states: int, dtype: torch.dtype) -> Tensor:
    """Return the states 0..S-1 as numbers from -1 to 1, for data whose states have an order."""
    # bfloat16 cannot distinguish 256 levels, so the arithmetic is never narrower than float32.
    wide = torch.promote_types(dtype, torch.float32)
    return (x.to(wide) * (2 / (num_states - 1)) - 1).to(dtype)


def one_hot(x: Tensor, num_states: int, dtype: torch.dtype) -> Tensor:
    """Return the one-hot vectors (B, *shape, S) in ``dtype``.

    torch's ``one_hot`` checks the values of x, so that the host waits for the accelerator; this does not.
    """
    return torch.zeros(*x.shape, num_states, dtype=dtype, device=x.device).scatter_(-1, x.unsqueeze(-1), 1)


def mark(h: Tensor, vector: Tensor, observed: Tensor | None) -> Tensor:
    """Add a learned vector (width,) to h (B, *shape, width) at the observed sites.

    Without a mask nothing is added, but the vector still gets a gradient, of zero: training on several processes
    (DistributedDataParallel) waits for the gradient of every parameter.
    """
    mask = torch.zeros((), dtype=h.dtype, device=h.device) if observed is None else observed.unsqueeze(-1).to(h.dtype)
    return h + mask * vector


def sinusoidal(position: Tensor, size: int) -> Tensor:
    """Return sines and cosines (N, size) of positions (N,), at angular frequencies from 1 down to 1e-4."""
    dtype = torch.promote_types(position.dtype, torch.float32)
    frequencies = torch.logspace(0, -4, size // 2, device=position.device, dtype=dtype)
    angles = position.to(dtype).unsqueeze(-1) * frequencies
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class TimeEmbedding(nn.Module):
    """Embed t by sines and cosines of 1000 t and an MLP with one hidden layer (Campbell et al. 2022, App. H).

    Args:
        size: The width of the sinusoidal embedding, even.
        hidden: The width of the hidden layer.
        out: The width of the result.
        activation: The activation of the hidden layer. Default: ReLU.
        time: Whether t is used. If false, the result is one learned vector for all times. Default: True.
    """

    def __init__(
        self, size: int, hidden: int, out: int, activation: nn.Module | None = None, *, time: bool = True
    ) -> None:
        super().__init__()
        self.size = size
        self.constant = None if time else nn.Parameter(torch.zeros(1, out))
        if time:
            self.hidden = nn.Linear(size, hidden)
            self.activation = nn.ReLU() if activation is None else activation
            self.out = nn.Linear(hidden, out)

    def forward(self, t: Tensor) -> Tensor:
        """Return the embedding (1, out) or (B, out) of times () or (B,)."""
        if self.constant is not None:
            return self.constant
        if t.ndim and len(t) and t.stride(0) == 0:  # one time, expanded to the batch, is embedded once
            t = t[0]
        embedding = sinusoidal(TIME_SCALE * t.reshape(-1), self.size)
        return self.out(self.activation(self.hidden(embedding.to(self.hidden.weight.dtype))))


class Modulation(NamedTuple):
    """Hold the scale and the offset of scale * h + offset, one per feature and the same at every site."""

    scale: Tensor
    offset: Tensor

    # Not ``__call__``: torch.compile of PyTorch 2.6 cannot trace the call of a NamedTuple.
    def modulate(self, h: Tensor) -> Tensor:
        """Return ``scale * h + offset``, in the shape (B, ..., width) of ``h``."""
        sites = (1,) * (h.ndim - 2)
        scale, offset = (p.view(p.shape[0], *sites, p.shape[1]) for p in self)
        return torch.addcmul(offset, scale, h)


class FiLM(nn.Module):
    """Map the time embedding to a Modulation by a linear layer.

    The biases of the scales begin at 1, so that the untrained modulation is close to the identity.
    """

    def __init__(self, time_width: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(time_width, 2 * width)
        nn.init.zeros_(self.linear.bias)
        nn.init.ones_(self.linear.bias[:width])

    def forward(self, embedding: Tensor) -> Modulation:
        """Return a scale and an offset of (B, width) each, from a time embedding (B, time_width)."""
        return Modulation(*self.linear(embedding).chunk(2, dim=-1))
