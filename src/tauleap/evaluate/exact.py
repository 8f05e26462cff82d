"""Exact likelihoods and distributions of a model on enumerable spaces."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check
from tauleap._shapes import Law, States
from tauleap.denoise import Posterior
from tauleap.evaluate._check import reverse_process
from tauleap.evaluate._mode import evaluating
from tauleap.reverse import ReverseProcess

_MOST_STATES = 2**16
_BLOCK = 2**12
_LEAST_TOLERANCE = 1e-12  # below, rounding would set the length of the steps

# Dormand and Prince's pair of orders 5 and 4.
_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def exact_log_likelihood(
    reverse: ReverseProcess, x: States, *, eps: float = 0.01, tolerance: float = 1e-7, condition: Tensor | None = None
) -> Float[Tensor, " batch"]:
    """Return the exact log p(x) of every row in nats, which ``bits_per_dim`` bounds, on an enumerable space.

    As ``exact_law``, but the chain starts from the prior of the bound. The two differ only under absorbing noise, where
    sampling starts fully masked.

    Args:
        reverse: The reverse process.
        x: The data.
        eps: The last time of the reverse chain, in (0, 1). Default: 0.01.
        tolerance: The relative tolerance of a step of the solver, > 0. Default: 1e-7.
        condition: One condition, with a batch axis of 1. Default: none.

    Returns:
        One number per row in float64; -inf where the model cannot generate x.

    Raises:
        ValueError: The space has more than 65,536 states.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import LogLinear, RankOne
    >>> process = RankOne(torch.tensor([0.5, 0.5]), LogLinear())
    >>> law = torch.tensor([0.8, 0.2], dtype=torch.float64)
    >>> reverse = ReverseProcess(process, ExactDenoiser(law, process))
    >>> exact_log_likelihood(reverse, torch.tensor([[0], [1]])).exp()
    tensor([0.8000, 0.2000], dtype=torch.float64)
    """
    reverse = reverse_process(reverse, "exact_log_likelihood").in_float64()
    x = _check.states(x, reverse.process.num_states)
    if x.numel() == 0:
        raise ValueError(f"x must hold at least one state, got shape {tuple(x.shape)}")
    law = _generated(reverse, tuple(x.shape[1:]), reverse.process.prior(), eps, tolerance, condition)
    return law[tuple(x.reshape(len(x), -1).to(law.device).unbind(1))].log()


def exact_law(
    reverse: ReverseProcess,
    shape: tuple[int, ...],
    *,
    eps: float = 0.01,
    tolerance: float = 1e-7,
    condition: Tensor | None = None,
) -> Tensor:
    """Return the distribution of exact samples of the model, a table (S,)*D with one axis per site.

    The reverse chain starts from the sampling prior at time 1; its law follows the Kolmogorov equation

        -d/dt p_t(y) = sum_x p_t(x) Rhat_t(x, y) - p_t(y) sum_v Rhat_t(y, v)

    down to ``eps``, solved by an adaptive Runge-Kutta method; then every site is drawn from p(x0 | x_eps).

    Args:
        reverse: The reverse process.
        shape: The shape of one sample, with D sites.
        eps: The last time of the reverse chain, in (0, 1). Default: 0.01.
        tolerance: The relative tolerance of a step of the solver, > 0. Default: 1e-7.
        condition: One condition, with a batch axis of 1. Default: none.

    Returns:
        Probabilities in float64, (S,)*D, which sum to 1 up to the tolerance.

    Raises:
        ValueError: The space has more than 65,536 states.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> process = Uniform(2, Constant(5.0))
    >>> exact_law(ReverseProcess(process, ExactDenoiser(torch.tensor([0.75, 0.25]), process)), (1,))
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    reverse = reverse_process(reverse, "exact_law").in_float64()
    return _generated(reverse, _sites(shape), reverse.process.sampling_prior(), eps, tolerance, condition)


def _generated(
    reverse: ReverseProcess,
    shape: tuple[int, ...],
    start: Law,
    eps: float,
    tolerance: float,
    condition: Tensor | None,
) -> Tensor:
    """Return the distribution of x0 if x_1 has the distribution ``start``."""
    process = reverse.process
    sites, size = math.prod(shape), process.num_states
    eps, tolerance = _check.positive("eps", eps), _check.positive("tolerance", tolerance)
    if eps >= 1:
        raise ValueError(f"eps must be a time in (0, 1), got {eps}")
    if tolerance < _LEAST_TOLERANCE:
        raise ValueError(
            f"tolerance must be at least {_LEAST_TOLERANCE:g}, got {tolerance:g}: float64 has no more digits"
        )
    _check_condition(condition)
    if sites < 1 or size**sites > _MOST_STATES:
        raise ValueError(
            f"{size} states at each of {sites} sites make {size}^{sites} states in all, more than {_MOST_STATES}: "
            "use bits_per_dim, which bounds the likelihood on any space"
        )
    device = start.device
    states = torch.cartesian_prod(*[torch.arange(size, device=device)] * sites).reshape(-1, *shape)
    model = _Model(reverse, states, condition)
    law = torch.ones((), dtype=torch.float64, device=device)
    for site in start.to(device, torch.float64).expand(*shape, size).reshape(sites, size):
        law = law[..., None] * site
    with evaluating(reverse):
        law = _integrate(model, law, 1.0, eps, tolerance)
        return model.finish(law, eps)


def chain_law(reverse: ReverseProcess, law: Tensor, t: float, s: float, *, tolerance: float = 1e-7) -> Tensor:
    """Return ``law`` (S,)*D at t after the exact reverse chain has run to s < t.

    By the same equation and method as in :func:`exact_law`.
    """
    reverse = reverse_process(reverse, "chain_law").in_float64()
    size = reverse.process.num_states
    states = torch.cartesian_prod(*[torch.arange(size, device=law.device)] * law.ndim).reshape(-1, law.ndim)
    with evaluating(reverse):
        return _integrate(_Model(reverse, states, None), law, t, s, tolerance)


def _sites(shape: object) -> tuple[int, ...]:
    if not isinstance(shape, tuple | list):
        raise TypeError(f"shape must be the shape of one sample, such as (2,) for two sites, got {shape!r}")
    return tuple(_check.integer("each axis of shape", axis, least=0) for axis in shape)


def _check_condition(condition: object) -> None:
    if condition is None:
        return
    if not isinstance(condition, Tensor):
        raise TypeError(f"condition must be a tensor, got {type(condition).__name__}: write torch.tensor(condition)")
    if condition.ndim < 1 or len(condition) != 1:
        raise ValueError(
            f"condition must be one condition with a batch axis of 1, got shape {tuple(condition.shape)}: a law "
            "belongs to one condition, so call once for each, with condition[i : i + 1]"
        )


class _Model:
    """Evaluate the learned chain on all states of the space at once."""

    def __init__(self, reverse: ReverseProcess, states: States, condition: Tensor | None) -> None:
        self.reverse, self.states, self.condition = reverse, states, condition
        self.sites, self.size = states[0].numel(), reverse.process.num_states

    def slope(self, law: Tensor, t: float) -> Tensor:
        """Return -d/dt of the law, a table (S,)*D."""
        rates = torch.cat([self._rates(block, t) for block in self.states.split(_BLOCK)])
        flow = (law.reshape(-1, 1, 1) * rates).reshape(*law.shape, self.sites, self.size)
        out = -flow.sum((-1, -2))
        for site, jumps in enumerate(flow.unbind(-2)):
            out += jumps.sum(site).movedim(-1, site)  # whatever the site was, it is now v
        return out

    def finish(self, law: Tensor, t: float) -> Tensor:
        """Return the law after every site is drawn from p(x0 | x), as a product of two matrices."""
        half = self.sites // 2
        out = law.new_zeros(self.size**half, self.size ** (self.sites - half))
        for block, weight in zip(self.states.split(_BLOCK), law.reshape(-1).split(_BLOCK), strict=True):
            posterior = self.reverse.posterior(block, t, condition=self._condition(block))
            probs = Posterior(posterior.logits.double()).probs.reshape(len(block), self.sites, self.size)
            first, second = weight[:, None], torch.ones_like(weight)[:, None]
            for site in range(half):
                first = (first[:, :, None] * probs[:, None, site]).flatten(1)
            for site in range(half, self.sites):
                second = (second[:, :, None] * probs[:, None, site]).flatten(1)
            out += first.mT @ second
        return out.reshape(law.shape)

    def _rates(self, block: States, t: float) -> Tensor:
        predicted = self.reverse.posterior(block, t, condition=self._condition(block), reachable_only=False)
        rates = self.reverse.rates(block, t, posterior=Posterior(predicted.logits.double()))
        return rates.reshape(len(block), self.sites, self.size)

    def _condition(self, block: States) -> Tensor | None:
        return None if self.condition is None else self.condition.expand(len(block), *self.condition.shape[1:])


def _integrate(model: _Model, law: Tensor, start: float, end: float, tolerance: float) -> Tensor:
    """Return the distribution at ``end``, integrated down from ``start``."""
    t, step = start, (start - end) / 100
    slope = model.slope(law, t)
    while t > end:
        step = min(step, t - end)
        slopes, inner = [slope], law
        for node, stage in zip(_NODES[1:], _STAGES[1:], strict=True):
            inner = law + step * sum(a * k for a, k in zip(stage, slopes, strict=True))
            slopes.append(model.slope(inner, max(t - node * step, end)))
        # The last stage is the new law itself, so its slope serves again.
        error = step * sum(e * k for e, k in zip(_ERROR, slopes, strict=True))
        largest = torch.maximum(law.abs(), inner.abs())
        worst = float((torch.as_tensor(error).abs() / (tolerance * (largest + 1e-6 * largest.max()))).max())
        if not math.isfinite(worst):
            raise RuntimeError(
                f"the model's rates are not finite near t = {t:g}: check that the denoiser returns finite logits there"
            )
        accepted = worst <= 1
        if accepted:
            t, law, slope = (end if step >= t - end else t - step), inner, slopes[-1]
        step *= min(5.0, max(0.2, 0.9 * worst**-0.2 if worst > 0 else 5.0))
        if not accepted and step < 1e-9:
            raise RuntimeError(f"the Kolmogorov equation could not be solved to {tolerance:g}: give a larger tolerance")
    return law.clamp(min=0.0)
