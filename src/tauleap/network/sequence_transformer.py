"""A transformer for sequences and tables of your own, after the diffusion transformer of Peebles and Xie 2023."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import PerState, SiteMask, States
from tauleap.network.adaptive_block import AdaptiveBlock, zeroed
from tauleap.network.inputs import TimeEmbedding, check_call, check_dropout, check_heads, check_shape, check_sizes, mark
from tauleap.network.labels import add_label, label_vectors
from tauleap.network.network import Network, Times
from tauleap.network.plain_block import PlainBlock
from tauleap.network.rotary import Rotation

_PLAIN_SITES = 0.1
"""Standard deviation of the vectors of the sites at the start with plain blocks. Vectors as large as those of the
states hide the states: training then stays at the frequencies of single states for its first minute."""


@final
class SequenceTransformer(Network):
    """Apply a pre-norm transformer with rotary positions: the default for sequences of your own.

    Data of any shape are flattened inside; rotary positions count along the flattened index. The output layer begins at
    zero, so the untrained network predicts the uniform distribution.

    There are two kinds of blocks. In the first, time and label scale and shift what each norm returns, and gates that
    begin at zero multiply what each layer adds (adaLN-zero). Plain blocks have neither; time and label are added to the
    input, and each block also mixes five neighbouring sites. On small budgets they learn much faster.

    Args:
        num_states: The number of states S, >= 2.
        shape: The shape of one row. If given, every site also has a learned vector, which distinguishes the columns of
            a table or the rows of a picture. Default: None, only distances matter and data may have any shape.
        width: The width of the model, a multiple of ``2 * heads``. Default: 256.
        depth: The number of blocks. Default: 6.
        heads: The number of heads of each self-attention. Default: 8.
        dropout: The probability of dropping at the output of each attention and each MLP, in [0, 1). Default: 0.
        num_classes: The number of class labels that ``condition`` can have. Default: None, a network without labels.
        time: Whether the network takes t. Under absorbing noise the posterior does not depend on t, and a network
            without it has the bound of :class:`tauleap.objective.AnyOrderElbo`; other noise needs it. Default: True.
        plain: Whether the blocks are plain. Default: False.
        mark_observed: Whether a learned vector is added to the observed sites. If false, ``observed`` has no effect:
            under absorbing noise an observed site is one that is not masked. Default: True.

    >>> network = SequenceTransformer(5, width=16, heads=2, depth=1)
    >>> network(torch.zeros(1, 7, dtype=torch.int64), torch.tensor(0.5)).shape
    torch.Size([1, 7, 5])
    """

    def __init__(
        self,
        num_states: int,
        shape: Sequence[int] | None = None,
        *,
        width: int = 256,
        depth: int = 6,
        heads: int = 8,
        dropout: float = 0.0,
        num_classes: int | None = None,
        time: bool = True,
        plain: bool = False,
        mark_observed: bool = True,
    ) -> None:
        _check.integer("num_states", num_states, least=2)
        check_heads(width, heads)
        if width // heads % 2:
            raise ValueError(f"rotary positions need heads of even size, got width={width} and heads={heads}")
        check_sizes(depth=depth, num_classes=1 if num_classes is None else num_classes)
        check_dropout(dropout)
        sides = None if shape is None else check_shape(shape)
        super().__init__(
            num_states=num_states,
            shape=None if sides is None else list(sides),
            width=width,
            depth=depth,
            heads=heads,
            dropout=dropout,
            num_classes=num_classes,
            **({} if time else {"time": False}),
            **({"plain": True} if plain else {}),
            **({} if mark_observed else {"mark_observed": False}),
        )
        self.uses_time = time
        self.shape = sides
        self.head_size = width // heads
        self.time = TimeEmbedding(width, width, width, nn.SiLU(), time=time)
        self.classes = label_vectors(num_classes, width)
        self.input = nn.Embedding(num_states, width)
        self.sites = None if sides is None else nn.Parameter(torch.randn(prod(sides), width))
        self.observed = nn.Parameter(torch.zeros(width)) if mark_observed else None
        self.modulation = None
        if plain:
            if self.sites is not None:
                nn.init.normal_(self.sites, std=_PLAIN_SITES)
            self.blocks = nn.ModuleList(PlainBlock(width, heads, dropout) for _ in range(depth))
            self.norm = nn.LayerNorm(width, bias=False)
        else:
            self.blocks = nn.ModuleList(AdaptiveBlock(width, heads, dropout) for _ in range(depth))
            self.norm = nn.LayerNorm(width, elementwise_affine=False)
            self.modulation = zeroed(nn.Linear(width, 2 * width))
        self.output = zeroed(nn.Linear(width, num_states, bias=not plain))

    def forward(
        self,
        x: States,
        t: Times,
        *,
        observed: SiteMask | None = None,
        condition: Tensor | None = None,
        return_hidden: bool = False,
    ) -> PerState:
        """Return the logits (B, *shape, S), or the hidden states (B, *shape, width).

        Args:
            x: int64 (B, *shape), the noisy state.
            t: floating, () or (B,).
            observed: bool (B, *shape), true where the value is given. Default: none.
            condition: int64 (B,), class labels; the label ``num_classes`` means that the class is not known. Default:
                None, no class is known.
            return_hidden: return the hidden states, from which :meth:`head` computes the logits. Default: false.
        """
        check_call(x, t, observed)
        if x.ndim < 2 or (self.shape is not None and x.shape[1:] != self.shape):
            expected = "at least one site" if self.shape is None else f"shape {self.shape}"
            raise ValueError(f"x must be a batch of data with {expected}, got {tuple(x.shape)}")
        h = self.input(x.flatten(1))
        if self.sites is not None:
            h = h + self.sites
        if self.observed is not None:
            h = mark(h, self.observed, None if observed is None else observed.flatten(1))
        embedding = add_label(self.time(t), self.classes, condition, len(x))
        rotation = Rotation.of_length(h.shape[1], self.head_size, like=h)
        hidden = self._trunk(h, embedding, rotation).unflatten(1, x.shape[1:])
        return hidden if return_hidden else self.head(hidden, x)

    def _trunk(self, h: Tensor, embedding: Tensor, rotation: Rotation) -> Tensor:
        """Return the normed output of the blocks, (B, D, width); ``embedding`` is (1 or B, width)."""
        if self.modulation is None:
            h = h + embedding.unsqueeze(1)
            for block in self.blocks:
                h = block(h, rotation)
            return self.norm(h)
        embedding = F.silu(embedding)
        for block in self.blocks:
            h = block(h, embedding, rotation)
        scale, offset = self.modulation(embedding).unsqueeze(1).chunk(2, dim=-1)
        return torch.addcmul(offset, 1 + scale, self.norm(h))

    def head(self, hidden: Float[Tensor, "*sites width"], x: Int64[Tensor, "*sites"]) -> Float[Tensor, "*sites states"]:
        """Return the logits of any sites.

        Args:
            hidden: their hidden states.
            x: their noisy states, without effect.
        """
        return self.output(hidden)
