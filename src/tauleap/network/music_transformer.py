"""The transformer of the monophonic music experiment (App. H.3)."""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.attention import SelfAttention
from tauleap.network.inputs import (
    FiLM,
    TimeEmbedding,
    check_call,
    check_dropout,
    check_even,
    check_heads,
    check_sizes,
    mark,
    one_hot,
    sinusoidal,
)
from tauleap.network.mlp import ResidualBlock
from tauleap.network.network import Network, Times


class EncoderLayer(nn.Module):
    """Apply self-attention, then an MLP; each with dropout, residual connection, norm and the same FiLM."""

    def __init__(self, width: int, heads: int, hidden: int, time_width: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.attention_norm = nn.LayerNorm(width)
        self.mlp_norm = nn.LayerNorm(width)
        self.film = FiLM(time_width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        """Return the hidden states (B, D, width) after this layer."""
        modulation = self.film(embedding)
        h = modulation.modulate(self.attention_norm(h + self.dropout(self.attention(h))))
        return modulation.modulate(self.mlp_norm(h + self.dropout(self.mlp(h))))


@final
class MusicTransformer(Network):
    """Apply encoder layers and residual MLPs to one-hot input (App. H.3); the defaults have 7,008,769 parameters.

    Positions are sinusoidal, so a sequence may have any length. Dropout is applied where the paper says, at the output
    of each attention and of each MLP in the encoder. Observed bars are part of ``x``, as in the paper.

    Args:
        num_states: The number of states S, >= 2. Default: 129.
        width: The width of the model, even and a multiple of ``heads``. Default: 128.
        heads: The number of heads of each self-attention. Default: 8.
        hidden: The width of the hidden layer of every MLP. Default: 2048.
        depth: The number of encoder layers. Default: 6.
        output_depth: The number of residual MLPs after the encoder. Default: 2.
        time_size: The width of the sinusoidal embedding of t, even. Default: 128.
        time_hidden: The width of the hidden layer of the MLP after it. Default: 2048.
        time_width: The width of the output of this MLP, from which each layer computes its scale and offset. Default:
            512.
        dropout: The probability of dropping, in [0, 1). Default: 0.1.
        mark_observed: Whether a learned vector is added to the observed sites. If false, ``observed`` has no effect.
            Default: False.
        time: Whether the network takes t. Under absorbing noise the posterior does not depend on t, and a network
            without it has the bound of :class:`tauleap.objective.AnyOrderElbo`; other noise needs it. Default: True.

    >>> network = MusicTransformer(width=16, heads=2, hidden=32, depth=1)
    >>> network(torch.zeros(1, 8, dtype=torch.int64), torch.tensor(0.5)).shape
    torch.Size([1, 8, 129])
    """

    def __init__(
        self,
        num_states: int = 129,
        *,
        width: int = 128,
        heads: int = 8,
        hidden: int = 2048,
        depth: int = 6,
        output_depth: int = 2,
        time_size: int = 128,
        time_hidden: int = 2048,
        time_width: int = 512,
        dropout: float = 0.1,
        mark_observed: bool = False,
        time: bool = True,
    ) -> None:
        _check.integer("num_states", num_states, least=2)
        check_heads(width, heads)
        check_sizes(hidden=hidden, depth=depth, output_depth=output_depth)
        check_sizes(time_hidden=time_hidden, time_width=time_width)
        check_even(width=width, time_size=time_size)
        check_dropout(dropout)
        super().__init__(
            num_states=num_states,
            width=width,
            heads=heads,
            hidden=hidden,
            depth=depth,
            output_depth=output_depth,
            time_size=time_size,
            time_hidden=time_hidden,
            time_width=time_width,
            dropout=dropout,
            mark_observed=mark_observed,
            **({} if time else {"time": False}),
        )
        self.uses_time = time
        self.num_states = num_states
        self.width = width
        self.time = TimeEmbedding(time_size, time_hidden, time_width, time=time)
        self.input = nn.Linear(num_states, width)
        self.observed = nn.Parameter(torch.zeros(width)) if mark_observed else None
        self.encoder = nn.ModuleList(EncoderLayer(width, heads, hidden, time_width, dropout) for _ in range(depth))
        self.residual = nn.ModuleList(ResidualBlock(width, hidden, time_width) for _ in range(output_depth))
        self.output = nn.Linear(width, num_states)

    def forward(
        self, x: States, t: Times, *, observed: SiteMask | None = None, return_hidden: bool = False
    ) -> PerState:
        """Return the logits (B, D, S), or the hidden states (B, D, width).

        Args:
            x: The noisy states, int64 (B, D).
            t: The time, floating, () or (B,); a scalar stands for the whole batch and is embedded once.
            observed: The mask of observed sites, bool (B, D); their values are in ``x``. Default: none.
            return_hidden: Return the hidden states, from which :meth:`head` computes the logits. Default: false.
        """
        check_call(x, t, observed)
        if x.ndim != 2:
            raise ValueError(f"x must be (B, D), a batch of sequences, got {tuple(x.shape)}")
        indicators = one_hot(x, self.num_states, self.input.weight.dtype)
        positions = sinusoidal(torch.arange(x.shape[1], device=x.device), self.width)
        h = self.input(indicators) + positions.to(indicators.dtype)
        if self.observed is not None:
            h = mark(h, self.observed, observed)
        embedding = self.time(t)
        for layer in (*self.encoder, *self.residual):
            h = layer(h, embedding)
        return h if return_hidden else self.head(h, x)

    def head(self, hidden: Float[Tensor, "*sites width"], x: Int64[Tensor, "*sites"]) -> Float[Tensor, "*sites states"]:
        """Return the logits of any sites: those of the output layer, plus 1 at the noisy state.

        Args:
            hidden: Their hidden states.
            x: Their noisy states.
        """
        logits = self.output(hidden).to(self.output.weight.dtype)  # autocast has rounded them
        return logits.scatter_add_(-1, x[..., None], torch.ones_like(logits[..., :1]))
