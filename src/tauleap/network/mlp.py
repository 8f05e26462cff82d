"""The residual MLP of the two-dimensional example (App. H.1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import final

import torch
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.inputs import (
    FiLM,
    TimeEmbedding,
    check_call,
    check_even,
    check_shape,
    check_sizes,
    normalise,
    one_hot,
)
from tauleap.network.network import Network, Times


class ResidualBlock(nn.Module):
    """Apply an MLP with one hidden layer, residual connection, layer norm and FiLM (App. H.1, end of H.3)."""

    def __init__(self, width: int, hidden: int, time_width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.norm = nn.LayerNorm(width)
        self.film = FiLM(time_width, width)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        """Return the hidden states (B, ..., width) after this block."""
        return self.film(embedding).modulate(self.norm(h + self.mlp(h)))


@final
class ResidualMLP(Network):
    """Connect all sites by a few dense layers (App. H.1); the defaults have 16,880 parameters.

    The paper does not specify how the two integers are encoded: here they are normalised to [-1, 1].

    Args:
        num_states: The number of states S, >= 2. Default: 32.
        shape: The shape of one row; its sites are flattened inside. Default: (2,).
        width: The width of the residual stream. Default: 16.
        hidden: The width of the hidden layer of the MLP in each block. Default: 32.
        depth: The number of blocks. Default: 2.
        time_size: The width of the sinusoidal embedding of t, even. Default: 32.
        time_hidden: The width of the hidden layer of the MLP after it. Default: 32.
        time_width: The width of the output of this MLP, from which each block computes its scale and offset. Default:
            128.
        one_hot: Whether the input has S indicators per site instead of one number. States without an order need it.
            Default: False.
        mark_observed: Whether the mask of the observed sites is appended to the input. If false, ``observed`` has no
            effect. Default: False.
        time: Whether the network takes t. Under absorbing noise the posterior does not depend on t, and a network
            without it has the bound of :class:`tauleap.objective.AnyOrderElbo`; other noise needs it. Default: True.

    >>> network = ResidualMLP(num_states=32, shape=(2,))
    >>> network(torch.tensor([[3, 7]]), torch.tensor(0.5)).shape
    torch.Size([1, 2, 32])
    """

    def __init__(
        self,
        num_states: int = 32,
        shape: Sequence[int] = (2,),
        *,
        width: int = 16,
        hidden: int = 32,
        depth: int = 2,
        time_size: int = 32,
        time_hidden: int = 32,
        time_width: int = 128,
        one_hot: bool = False,
        mark_observed: bool = False,
        time: bool = True,
    ) -> None:
        _check.integer("num_states", num_states, least=2)
        sides = check_shape(shape)
        check_sizes(width=width, hidden=hidden, depth=depth, time_hidden=time_hidden, time_width=time_width)
        check_even(time_size=time_size)
        sizes = {"width": width, "hidden": hidden, "depth": depth}
        sizes |= {"time_size": time_size, "time_hidden": time_hidden, "time_width": time_width}
        flags = {"one_hot": one_hot, "mark_observed": mark_observed}
        flags |= {} if time else {"time": False}
        super().__init__(num_states=num_states, shape=list(sides), **sizes, **flags)
        self.uses_time = time
        self.num_states = num_states
        self.shape = sides
        self.one_hot = one_hot
        self.mark_observed = mark_observed
        sites = prod(sides)
        self.time = TimeEmbedding(time_size, time_hidden, time_width, time=time)
        self.input = nn.Linear(sites * ((num_states if one_hot else 1) + mark_observed), width)
        self.blocks = nn.ModuleList(ResidualBlock(width, hidden, time_width) for _ in range(depth))
        self.output = nn.Linear(width, sites * num_states)

    def forward(self, x: States, t: Times, *, observed: SiteMask | None = None) -> PerState:
        """Return the logits (B, *shape, S).

        Args:
            x: The noisy states, int64 (B, *shape).
            t: The time, floating, () or (B,); a scalar stands for the whole batch and is embedded once.
            observed: The mask of observed sites, bool (B, *shape); their values are in ``x``. Default: none.
        """
        check_call(x, t, observed)
        if x.shape[1:] != self.shape:
            raise ValueError(f"x must be (B, {', '.join(map(str, self.shape))}), got {tuple(x.shape)}")
        encode = one_hot if self.one_hot else normalise
        h = encode(x, self.num_states, self.input.weight.dtype).flatten(1)
        if self.mark_observed:
            mask = torch.zeros_like(x) if observed is None else observed
            h = torch.cat((h, mask.flatten(1).to(h.dtype)), dim=1)
        h = self.input(h)
        embedding = self.time(t)
        for block in self.blocks:
            h = block(h, embedding)
        return self.output(h).view(*x.shape, self.num_states)
