"""p(x0 | x_t) of rows that end: behind an end there are only ends, and before a symbol there is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import States, Time
from tauleap.denoise.denoiser import Denoiser, NetworkCall
from tauleap.denoise.lazy import Mapped
from tauleap.denoise.posterior import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class SequenceDenoiser(Denoiser):
    """Use the output of a network as logits of rows of different lengths, under absorbing noise.

    A row has symbols up to its first end state, and end states from there to the last site. What follows from the
    visible sites has probability 1 or 0 whatever the network returns: a masked site behind a visible end state is an
    end, and one before a visible symbol is none. So a site behind the end adds no bits once an end is visible before
    it, and the bits of all sites of a row are those of its symbols and its length. The network gets all sites behind a
    visible end as ends, and always the last one.

    Args:
        network: Any module that takes states (batch, sites), and times if it needs them, and returns logits (batch,
            sites, S).
        end: The end state.
        mask: The mask of the noise.

    Raises:
        ValueError: A state is negative, or both are the same.

    >>> from tauleap.network import SequenceTransformer
    >>> denoiser = SequenceDenoiser(SequenceTransformer(4, width=8, depth=1, heads=1), end=2, mask=3)
    >>> x = torch.tensor([[3, 1, 3, 2, 3, 3]])  # masked, symbol, masked, end, masked, masked
    >>> denoiser(x, 0.5).probs[0, :, 2]
    tensor([0.0000, 0.2500, 0.2500, 0.2500, 1.0000, 1.0000], grad_fn=<SelectBackward0>)
    """

    def __init__(self, network: nn.Module, end: int, mask: int) -> None:
        super().__init__()
        self._call_network = NetworkCall(network)
        self.network = network
        self.end, self.mask = _check.integer("end", end, least=0), _check.integer("mask", mask, least=0)
        if self.end == self.mask:
            raise ValueError(f"end and mask must be two different states, got {end} for both")

    @property
    def uses_time(self) -> bool:
        return self._call_network.uses_time

    def check(self, process: ForwardProcess) -> None:
        if process.mask != self.mask or self.end >= process.num_states:
            raise ValueError(
                f"SequenceDenoiser(end={self.end}, mask={self.mask}) is for Absorbing noise with these states, got "
                f"{process!r}: write NetworkDenoiser(network) for other noise"
            )

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        if x_t.ndim != 2:
            raise ValueError(f"x_t must be rows of symbols (batch, sites), got shape {tuple(x_t.shape)}")
        is_end, masked = x_t == self.end, x_t == self.mask
        ended = is_end.cumsum(1) > 0
        ended[:, -1] = True
        symbols_to_come = (~is_end & ~masked).flip(1).cumsum(1).flip(1) > 0
        posterior = self._posterior(x_t.masked_fill(ended, self.end), t, observed, condition)
        # Visible sites keep the network's logits: their states are known, and must stay possible.
        certain = (ended & masked).reshape(-1, 1)
        impossible = (symbols_to_come & ~ended & masked).reshape(-1, 1)
        is_end_state = torch.arange(posterior.shape[-1], device=x_t.device) == self.end

        def constrained(rows: Tensor, sites: Tensor | None) -> Tensor:
            sure = certain if sites is None else certain.index_select(0, sites)
            never = impossible if sites is None else impossible.index_select(0, sites)
            return rows.masked_fill(torch.where(is_end_state, never, sure), float("-inf"))

        return Posterior(Mapped(posterior.parametrisation, constrained))

    def _posterior(self, x: States, t: Time, observed: Observed | None, condition: Tensor | None) -> Posterior:
        if self._call_network.splits(self.network):
            return Posterior(self._call_network.hidden_states(self.network, x, t, observed, condition))
        return Posterior(self._call_network(self.network, x, t, observed, condition))

    def set_precision(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        """Evaluate the head of the network in a context, such as that of the precision of training.

        Args:
            context: Returns the context of one evaluation.
        """
        self._call_network.precision = lambda: context
