"""A network for tables: each column has its own states, embeddings and output, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tauleap._shapes import SiteMask, States
from tauleap.network.inputs import TimeEmbedding, check_call, check_dropout, check_shape, check_sizes
from tauleap.network.network import Network, Times
from tauleap.network.ragged import RaggedLayout


class _Dropout(nn.Dropout):
    """Drop units as ``nn.Dropout`` does, in less time on a CPU: a step of a table network takes an eighth less."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        kept = torch.rand(input.shape, device=input.device) >= self.p
        return input * kept.to(input.dtype).mul_(1 / (1 - self.p))


class _Block(nn.Module):
    """Apply layer norm and an MLP with a residual connection; the hidden layer takes an offset from the time."""

    def __init__(self, width: int, hidden: int, dropout: float, time_width: int | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, hidden)
        self.time = None if time_width is None else nn.Linear(time_width, hidden)
        self.activation = nn.GELU()
        self.dropout = _Dropout(dropout)
        self.out = nn.Linear(hidden, width)

    def forward(self, h: Tensor, embedding: Tensor | None) -> Tensor:
        hidden = self.hidden(self.norm(h))
        if self.time is not None and embedding is not None:
            hidden = hidden + self.time(embedding)
        return h + self.out(self.dropout(self.activation(hidden)))


@final
class TableNetwork(Network):
    """Predict all columns of a table from a sum of embeddings, with costs that grow with the total number of states.

    Each column embeds its own states (and the mask of absorbing noise) and has its own logits, so that a column with
    1,000 states does not make the others larger. The sum of the embeddings goes through residual MLP blocks. The
    output begins at zero, so the untrained network predicts uniform distributions, or those of :meth:`begin_with_`.

    It returns one axis with the logits of all columns. :class:`tauleap.denoise.RaggedDenoiser` interprets it.

    Args:
        sizes: The number of states of each site, in the order of the flattened shape; the mask does not count.
        shape: The shape of one row. Default: one axis, ``(len(sizes),)``.
        width: The width of the residual stream. Default: 256.
        hidden: The width of the hidden layer of each block. Default: 512.
        depth: The number of blocks. Default: 3.
        dropout: The probability of dropping a hidden unit, in [0, 1). Default: 0.
        time: Whether the network takes t. Under absorbing noise the posterior does not depend on t, and without it the
            bound is that of :class:`tauleap.objective.AnyOrderElbo`; other noise needs it. Default: False.

    >>> import torch
    >>> network = TableNetwork([2, 5, 3], width=8, hidden=16)
    >>> network(torch.tensor([[1, 5, 2]]), torch.tensor(0.5)).shape  # the second column is masked
    torch.Size([1, 10])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        shape: Sequence[int] | None = None,
        *,
        width: int = 256,
        hidden: int = 512,
        depth: int = 3,
        dropout: float = 0.0,
        time: bool = False,
    ) -> None:
        layout = RaggedLayout(sizes)
        sides = (layout.sites,) if shape is None else check_shape(shape)
        if prod(sides) != layout.sites:
            raise ValueError(f"sizes must have one entry per site, {prod(sides)} for shape {sides}, got {layout.sites}")
        check_sizes(width=width, hidden=hidden, depth=depth)
        check_dropout(dropout)
        numbers = {"width": width, "hidden": hidden, "depth": depth, "dropout": dropout, "time": time}
        super().__init__(sizes=[int(size) for size in sizes], shape=list(sides), **numbers)
        self.shape, self.layout, self.uses_time = sides, layout, time
        self.time = TimeEmbedding(64, width, width) if time else None
        self.input = nn.EmbeddingBag(layout.total + layout.sites, width, mode="sum")
        # The sum over the sites has about the scale of one.
        nn.init.normal_(self.input.weight, std=layout.sites**-0.5)
        self.blocks = nn.ModuleList(_Block(width, hidden, dropout, width if time else None) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, layout.total)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def begin_with_(self, probs: Float[Tensor, "*shape states"]) -> TableNetwork:
        """Set the output's bias, so that the untrained network predicts these distributions, and return the network.

        Rare states need large negative logits, which take long to learn.

        Args:
            probs: A distribution per site, (*shape, states), positive at the states that the site has.
        """
        if probs.shape[:-1] != self.shape or probs.shape[-1] < self.layout.largest:
            raise ValueError(
                f"probs must be ({', '.join(map(str, self.shape))}, {self.layout.largest} or more), got "
                f"{tuple(probs.shape)}"
            )
        layout = self.layout
        states = torch.arange(layout.total) - layout.offsets[layout.site_of]
        own = probs.flatten(0, -2)[layout.site_of, states]
        if not bool((own > 0).all()):
            raise ValueError("probs must be positive at every state of a site, got 0: add 1/2 to each count")
        with torch.no_grad():
            self.output.bias.copy_(own.log())
        return self

    def forward(self, x: States, t: Times, *, observed: SiteMask | None = None) -> Float[Tensor, "batch total"]:
        """Return the logits of all sites in one axis, in the order of ``layout``.

        Args:
            x: The noisy states, int64 (batch, *shape).
            t: The time, floating, () or (batch,); without effect unless the network was built with ``time=True``.
            observed: Without effect: under absorbing noise an observed site is one that is not masked. Default: none.
        """
        check_call(x, t, observed)
        if x.shape[1:] != self.shape:
            raise ValueError(f"x must be (B, {', '.join(map(str, self.shape))}), got {tuple(x.shape)}")
        h = self.input(self.layout.inputs(x))
        embedding = None if self.time is None else self.time(t)
        for block in self.blocks:
            h = block(h, embedding)
        return self.output(self.norm(h))
