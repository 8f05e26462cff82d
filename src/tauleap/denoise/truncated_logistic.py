"""Ordinal states from two numbers per site: a logistic distribution, truncated to the range (Appendix H.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

from tauleap import _check
from tauleap._chunks import chunks
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, PerState, SiteMask, States, Time
from tauleap.denoise.denoiser import Denoiser, NetworkCall
from tauleap.denoise.parametrisation import Parametrisation
from tauleap.denoise.posterior import Posterior
from tauleap.observed import Observed

_SMALLEST_LOG_SCALE = -20.0  # far below the width of a cell: a narrower law has the same probabilities
_LARGEST_LOG_SCALE = 20.0  # all cells are alike to eight digits: a wider law has the same probabilities


class TruncatedLogistic(Denoiser):
    """Predict ordinal states by a truncated logistic distribution with two outputs per site (Appendix H.2).

    The states are S equal cells of [-1, 1]. The probability of a cell is that of a logistic distribution, given that it
    falls into the range; its mean is ``tanh(x + mu')``, with x the noisy state scaled to [-1, 1], so that a network of
    zeros predicts its input, and its scale is ``exp(log scale - 2)``.

    Args:
        network: The network, which returns an offset mu' and a log scale for each site, (batch, *shape, 2).
        num_states: The number of states S, >= 2.

    Raises:
        TypeError: ``network`` is not a torch.nn.Module.

    >>> class Zeros(nn.Module):
    ...     def forward(self, x, t):
    ...         return torch.zeros(*x.shape, 2)
    >>> TruncatedLogistic(Zeros(), 4)(torch.tensor([[0, 3]]), 0.5).mode
    tensor([[0, 3]])
    """

    def __init__(self, network: nn.Module, num_states: int) -> None:
        super().__init__()
        self._call_network = NetworkCall(network, "2")
        self.num_states = _check.integer("num_states", num_states, least=2)
        self.network = network

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        out = self._call_network(self.network, x_t, t, observed, condition)
        if out.shape[-1] != 2:
            raise ValueError(
                f"the network must return two numbers per site, mean offset and log scale: "
                f"{(*x_t.shape, 2)}, got {tuple(out.shape)}"
            )
        offset, log_scale = (out.float() if out.dtype in (torch.float16, torch.bfloat16) else out).unbind(-1)
        scaled = x_t.to(offset.dtype) * (2 / (self.num_states - 1)) - 1
        return Posterior(LogisticParameters(torch.tanh(scaled + offset), log_scale - 2, self.num_states))


class LogisticParameters(Parametrisation):
    """Mean and log scale of each site; the logits are computed when they are needed, and only for the sites in use."""

    def __init__(self, mean: PerSite, log_scale: PerSite, num_states: int) -> None:
        self.mean, self.log_scale, self.num_states = mean.contiguous(), log_scale.contiguous(), num_states
        self.shape = torch.Size((*mean.shape, num_states))
        self._logits: PerState | None = None

    @property
    def logits(self) -> PerState:
        with_grad = torch.is_grad_enabled() and (self.mean.requires_grad or self.log_scale.requires_grad)
        if self._logits is None or (with_grad and not self._logits.requires_grad):
            self._logits = truncated_logistic_logits(self.mean, self.log_scale, self.num_states)
        return self._logits

    @property
    def undefined(self) -> SiteMask:
        # A scale beyond its range is clamped, so that it may be infinite.
        return ~self.mean.isfinite() | self.log_scale.isnan()

    @property
    def device(self) -> torch.device:
        return self.mean.device

    def log_prob(self, x0: States, sites: Tensor | None = None, allowed: Tensor | None = None) -> PerSite:
        """Return log p(x0 | x_t) of one state per site in closed form, O(1) in the number of states."""
        if allowed is not None:
            return super().log_prob(x0, sites, allowed)
        mean, log_scale = (self.mean, self.log_scale) if sites is None else self._select(sites)
        if x0.shape != mean.shape:
            raise ValueError(f"x0 must have the shape of the sites, {tuple(mean.shape)}, got {tuple(x0.shape)}")
        return truncated_logistic_log_prob(mean, log_scale, x0, self.num_states)

    def uniform_at(self, sites: SiteMask) -> LogisticParameters:
        widest = self.log_scale.masked_fill(sites, _LARGEST_LOG_SCALE)
        return LogisticParameters(self.mean.masked_fill(sites, 0.0), widest, self.num_states)

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        return truncated_logistic_logits(*self._select(sites), self.num_states)

    def _select(self, sites: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean.reshape(-1).index_select(0, sites), self.log_scale.reshape(-1).index_select(0, sites)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> LogisticParameters:
        mean, log_scale = change(torch.stack((self.mean, self.log_scale), -1)).unbind(-1)
        return LogisticParameters(mean, log_scale, self.num_states)


def truncated_logistic_logits(mean: PerSite, log_scale: PerSite, num_states: int) -> PerState:
    """Return the logits of the cells' probabilities, accurate in both tails.

    With a < b the ends of a cell in units of the scale, measured from the mean, ``sigmoid(b) - sigmoid(a)`` is
    ``sigmoid(b) sigmoid(-a) (1 - exp(a - b))``: no difference is left to cancel, and the last factor is the same for
    every cell. Since ``log sigmoid(-a) = log sigmoid(a) - a``, one sigmoid per end is enough.

    >>> truncated_logistic_logits(torch.tensor([0.0]), torch.tensor([0.0]), 4).softmax(-1)
    tensor([[0.2350, 0.2650, 0.2650, 0.2350]])
    """
    mean, log_scale = torch.broadcast_tensors(mean, log_scale)
    logits = _Logits.apply(mean.reshape(-1), log_scale.reshape(-1), num_states)
    return logits.view(*mean.shape, num_states)


def truncated_logistic_log_prob(mean: PerSite, log_scale: PerSite, x0: States, num_states: int) -> PerSite:
    """Return the log-probability of the cells ``x0``: the log mass of the cell minus that of the range [-1, 1].

    >>> truncated_logistic_log_prob(torch.tensor([0.0]), torch.tensor([0.0]), torch.tensor([1]), 4).exp()
    tensor([0.2650])
    """
    inverse_scale = torch.exp(-log_scale.clamp(_SMALLEST_LOG_SCALE, _LARGEST_LOG_SCALE))
    lower, upper = ((x0 + end).to(mean.dtype) * (2 / num_states) - 1 for end in (0, 1))

    def mass(low: PerSite | float, high: PerSite | float, width: float) -> PerSite:
        """Return log (sigmoid(b) - sigmoid(a)); each end is measured from the mean, as a + width would cancel."""
        a, b = (low - mean) * inverse_scale, (high - mean) * inverse_scale
        return logsigmoid(b) + logsigmoid(-a) + torch.log(-torch.expm1(-width * inverse_scale))

    return mass(lower, upper, 2 / num_states) - mass(-1.0, 1.0, 2.0)


class _Logits(torch.autograd.Function):
    """Compute logits (n, S) in blocks that fit into the cache, and keep nothing of size S for the gradient."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_scale: Tensor, num_states: int) -> Tensor:
        ctx.save_for_backward(mean, log_scale)
        out = mean.new_empty(len(mean), num_states)
        for part in chunks(len(mean), num_states, mean.device):
            distance, _ = _distances(mean[part], log_scale[part], num_states)
            log_sigmoid = logsigmoid(distance)
            torch.add(log_sigmoid[:, 1:], log_sigmoid[:, :-1], out=out[part]).sub_(distance[:, :-1])
        return out

    @staticmethod
    @once_differentiable
    @full_precision
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, Tensor, None]:
        mean, log_scale = ctx.saved_tensors
        of_mean, of_log_scale = torch.empty_like(mean), torch.empty_like(log_scale)
        sites, num_states = gradient.shape
        for part in chunks(sites, num_states, mean.device):
            distance, inverse_scale = _distances(mean[part], log_scale[part], num_states)
            # A logit grows with the upper end b by sigmoid(-b), and falls with the lower end a by sigmoid(a).
            sigmoid = torch.sigmoid(distance)
            along = torch.addcmul(distance, distance, sigmoid, value=-1)[:, 1:]
            along = torch.addcmul(along, distance[:, :-1], sigmoid[:, :-1], value=-1)
            both = sigmoid[:, 1:] + sigmoid[:, :-1]
            of_mean[part] = torch.linalg.vecdot(gradient[part], both.sub_(1)) * inverse_scale
            of_log_scale[part] = -torch.linalg.vecdot(gradient[part], along)
        return of_mean, of_log_scale.masked_fill_(log_scale < _SMALLEST_LOG_SCALE, 0.0), None


def _distances(mean: Tensor, log_scale: Tensor, num_states: int) -> tuple[Tensor, Tensor]:
    """Return the ends of all cells from the mean, in units of the scale, (n, S + 1); and one over the scale."""
    ends: Float[Tensor, " ends"] = torch.linspace(-1, 1, num_states + 1, dtype=mean.dtype, device=mean.device)
    inverse_scale = torch.exp(-log_scale.clamp(min=_SMALLEST_LOG_SCALE))
    return (ends - mean[:, None]).mul_(inverse_scale[:, None]), inverse_scale
