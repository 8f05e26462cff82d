"""Ordinal states from two numbers a site: a logistic law, cut off at the ends of the range (Appendix H.2)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from tauleap import _check
from tauleap._shapes import PerSite, PerState, States, Time
from tauleap.denoise.ask import Asker
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.posterior import Posterior
from tauleap.observed import Observed

_SMALLEST_LOG_SCALE = -20.0  # far below the width of a cell: a narrower law has the same probabilities


class TruncatedLogistic(Denoiser):
    """A network that gives, for each site, an offset mu' and a log scale: (batch, *shape, 2).

    The states are S equal cells of [-1, 1]. A cell has the probability that a logistic law puts on it, given that it
    falls into the range; the law's mean is ``tanh(x + mu')``, with x the noisy state scaled to [-1, 1], so that a
    network of zeros keeps what it sees, and its scale is ``exp(log scale - 2)``.
    """

    def __init__(self, network: nn.Module, num_states: int) -> None:
        super().__init__()
        self._ask = Asker(network)
        self.num_states = _check.integer("num_states", num_states, least=2)
        self.network = network

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        out = self._ask(self.network, x_t, t, observed, condition)
        if out.shape[-1] != 2:
            raise ValueError(
                f"the network must give two numbers a site, mean offset and log scale: "
                f"{(*x_t.shape, 2)}, got {tuple(out.shape)}"
            )
        offset, log_scale = (out.float() if out.dtype in (torch.float16, torch.bfloat16) else out).unbind(-1)
        scaled = x_t.to(offset.dtype) * (2 / (self.num_states - 1)) - 1
        return Posterior(truncated_logistic_logits(torch.tanh(scaled + offset), log_scale - 2, self.num_states))


def truncated_logistic_logits(mean: PerSite, log_scale: PerSite, num_states: int) -> PerState:
    """Logits of the cells' probabilities, right in both tails.

    With a < b the ends of a cell in units of the scale, measured from the mean, ``sigmoid(b) - sigmoid(a)`` is
    ``sigmoid(b) sigmoid(-a) (1 - exp(a - b))``: no difference is left to cancel, and the last factor is the same for
    every cell.

    >>> truncated_logistic_logits(torch.tensor([0.0]), torch.tensor([0.0]), 4).softmax(-1)
    tensor([[0.2350, 0.2650, 0.2650, 0.2350]])
    """
    ends: Float[Tensor, " ends"] = torch.linspace(-1, 1, num_states + 1, dtype=mean.dtype, device=mean.device)
    inverse_scale = torch.exp(-log_scale.clamp(min=_SMALLEST_LOG_SCALE))[..., None]
    distance = (ends - mean[..., None]) * inverse_scale
    return logsigmoid(distance[..., 1:]) + logsigmoid(-distance[..., :-1])
