"""The law after a step of a sampler, exactly: a table over the joint space is pushed through it, nothing is drawn.

Given the joint state x, the sites of a leap or of an ancestral step are independent, so a step is known by the law of
each site, (S^D, D, S), and costs one product over the sites. Steps of two stages go through all pairs of states. With
an exact denoiser the difference between what comes out and what should come out is the error of the method, to sixteen
digits, where a million draws would show three; with a trained one it is what its samples converge to.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tauleap import _device
from tauleap.denoise import Posterior
from tauleap.evaluate.exact import chain_law
from tauleap.evaluate.joint_space import joint_generator, joint_states, site_kernels
from tauleap.evaluate.leaps import leap_laws
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
)
from tauleap.sampling.tau_leaping import MultipleJumps


@dataclass(frozen=True)
class Accuracy:
    """To how many digits a law is pushed, where digits cost time."""

    tolerance: float = 1e-7
    """With which the chain's equation is solved for exact samplers."""
    negligible: float = 1e-15
    """A pair of states of less probability is left out of a step of two stages."""


FULL = Accuracy()
COARSE = Accuracy(tolerance=1e-3, negligible=1e-11)
"""For networks with kinks in t on a thousand states: a Hellinger distance of 0.0641 is right to 3e-5."""


def sample_law(
    sampler: Sampler,
    reverse: ReverseProcess,
    sites: int,
    grid: Iterable[float] | Tensor,
    final: Literal["mode", "sample", "none"] = "mode",
    *,
    accuracy: Accuracy = FULL,
) -> Tensor:
    """The law of what ``tauleap.sample`` gives with these arguments, from the prior to the final step: (S,)*D."""
    times = [float(t) for t in grid]
    law = pushforward_grid(sampler, reverse, prior(reverse, sites), times, accuracy=accuracy)
    return apply_final(reverse, law, times[-1], final)


def pushforward_grid(
    sampler: Sampler,
    reverse: ReverseProcess,
    law: Tensor,
    grid: Iterable[float] | Tensor,
    *,
    accuracy: Accuracy = FULL,
) -> Tensor:
    """``law`` (S,)*D at the first time of the grid, pushed to the last."""
    (_, last) = deque(trajectory(sampler, reverse, law, grid, accuracy=accuracy), maxlen=1).pop()
    return last


def trajectory(
    sampler: Sampler,
    reverse: ReverseProcess,
    law: Tensor,
    grid: Iterable[float] | Tensor,
    *,
    accuracy: Accuracy = FULL,
) -> Iterator[tuple[float, Tensor]]:
    """Every time of the grid with the law there, beginning with ``law`` (S,)*D at the first."""
    reverse, law = reverse.on_cpu(), _device.exact_on_cpu(law)
    times = [float(t) for t in grid]
    yield times[0], law
    for t, s in pairwise(times):
        law = pushforward_step(sampler, reverse, law, t, s, accuracy)
        yield s, law


def laws_at(
    sampler: Sampler,
    reverse: ReverseProcess,
    law: Tensor,
    grid: Iterable[float] | Tensor,
    times: Iterable[float],
    *,
    accuracy: Accuracy = FULL,
) -> tuple[Tensor, list[Tensor]]:
    """``law`` pushed to the last time of the grid, and what it is at those times of the grid nearest to ``times``."""
    steps = [float(t) for t in grid]
    nearest = [min(steps, key=lambda t, time=time: abs(t - time)) for time in times]
    found, last = {}, law
    for t, last in trajectory(sampler, reverse, law, steps, accuracy=accuracy):
        if t in nearest:
            found[t] = last
    return last, [found[t] for t in nearest]


@singledispatch
def pushforward_step(
    sampler: Sampler, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    """``law`` (S,)*D at t after a step of the sampler to s."""
    raise TypeError(f"no explicit kernel is known for a step of {sampler}")


def marginal(reverse: ReverseProcess, data: Tensor, t: float) -> Tensor:
    """q_t for data with the law ``data`` (S,)*D."""
    law = _device.exact_on_cpu(data)
    for site, kernel in enumerate(site_kernels(reverse.on_cpu().process, (data.ndim,), t)):
        law = (law.movedim(site, -1) @ kernel).movedim(-1, site)
    return law


def prior(reverse: ReverseProcess, sites: int) -> Tensor:
    """Return the law from which sampling starts, (S,)*D: independent sites, each with its sampling prior."""
    each = reverse.on_cpu().process.sampling_prior()
    law = torch.ones((), dtype=torch.float64, device=each.device)
    for one in each.expand(sites, -1):
        law = law[..., None] * one
    return law


def reverse_chain_law(reverse: ReverseProcess, data: Tensor, t: float) -> Tensor:
    """The law at t of the reverse chain from the prior, with the true posterior of ``data`` (S,)*D, in closed form.

    By Bayes' rule, sum_x p_ref(x) q(x_t | x_1 = x) = q_t(x_t) sum_x q_1|t(x | x_t) p_ref(x) / q_1(x).
    """
    start, last = prior(reverse, data.ndim), marginal(reverse, data, 1.0)
    law = torch.where(start > 0, start / torch.where(start > 0, last, 1.0), 0.0)
    for site, kernel in enumerate(site_kernels(reverse.on_cpu().process, (data.ndim,), 1.0, t)):
        law = (law.movedim(site, -1) @ kernel.mT).movedim(-1, site)
    return marginal(reverse, data, t) * law


def apply_final(reverse: ReverseProcess, law: Tensor, t: float, final: Literal["mode", "sample", "none"]) -> Tensor:
    """``law`` at t after the final step of ``tauleap.sample``."""
    reverse, law = reverse.on_cpu(), _device.exact_on_cpu(law)
    if final == "none":
        return law
    if final == "mode":
        return apply_mode(reverse, law, t)
    return push_sites(law.reshape(-1), _posterior(reverse, _states(law), t).probs)


def apply_mode(reverse: ReverseProcess, law: Tensor, t: float) -> Tensor:
    """``law`` at t after every state has become the denoiser's most probable x0: what ``final="mode"`` does."""
    predicted = reverse.posterior(_states(law), t).mode
    return torch.zeros_like(law).index_put_(tuple(predicted.T), law.reshape(-1), accumulate=True)


def push_sites(weights: Tensor, laws: Tensor) -> Tensor:
    """sum_n weights[n] prod_d laws[n, d, .]: (S,)*D."""
    count, sites, size = laws.shape
    joint = weights[:, None]
    for site in range(sites - 1):
        joint = (joint[:, :, None] * laws[:, site, None, :]).reshape(count, -1)
    return (joint.mT @ laws[:, -1]).reshape([size] * sites)


def push_pairs(
    law: Tensor, first: Tensor, second: Callable[[Tensor, int], Tensor], negligible: float = FULL.negligible
) -> Tensor:
    """Two stages: ``first`` (S^D, D, S) from x to x*, and ``second`` of the numbers of several x and of one x*.

    ``second`` gives (len(x), D, S). One x* at a time, so that what is made for it stays in the cache. Pairs less
    probable than ``negligible`` are left out.
    """
    count, sites, _ = first.shape
    joint = law.reshape(-1, 1)
    for site in range(sites):
        joint = (joint[:, :, None] * first[:, site, None, :]).reshape(count, -1)
    out = torch.zeros_like(law)
    for between, weights in enumerate(joint.mT.contiguous()):
        start = (weights > negligible).nonzero().squeeze(-1)
        if len(start):
            out += push_sites(weights[start], second(start, between))
    return out


def _states(law: Tensor) -> Tensor:
    return joint_states(law.shape[0], law.ndim)


def _posterior(reverse: ReverseProcess, x: Tensor, t: float) -> Posterior:
    """At every joint state, in the law's precision even where a network works in less."""
    return Posterior(reverse.posterior(x, t).logits.double())


def _rates(reverse: ReverseProcess, x: Tensor, t: float) -> Tensor:
    return reverse.rates(x, t, posterior=_posterior(reverse, x, t))


@pushforward_step.register
def _(sampler: TauLeaping, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    x, how = _states(law), sampler.multiple_jumps or ("add" if reverse.process.ordinal else "reject")
    return push_sites(law.reshape(-1), leap_laws(_rates(reverse, x, t), x, t - s, how))


@pushforward_step.register
def _(sampler: Ancestral, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    x, u = _states(law), t - sampler.look_ahead * (t - s)
    posterior = reverse.with_own_evidence(_posterior(reverse, x, u), x, u, x, t)
    return push_sites(law.reshape(-1), reverse.step_probs(x, t, s, posterior=posterior))


@pushforward_step.register
def _(
    sampler: Trapezoidal, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    x, u = _states(law), t - sampler.theta * (t - s)
    a1, a2 = sampler.weights
    rates, later = _rates(reverse, x, t), _rates(reverse, x, u)

    def second(i: Tensor, j: int) -> Tensor:
        here = x[j].expand(len(i), -1)
        extrapolated = (a1 * later[j] - a2 * rates[i]).clamp_(min=0).scatter_(-1, here[..., None], 0.0)
        return leap_laws(extrapolated, here, u - s, "last")

    return push_pairs(law, leap_laws(rates, x, t - u, "last"), second, accuracy.negligible)


@pushforward_step.register
def _(
    sampler: Extrapolated, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    x, u, sites = _states(law), (t + s) / 2, range(law.ndim)
    first, later = _posterior(reverse, x, t), _posterior(reverse, x, u).probs
    # What the first answer says of a site in x* depends on its own state there alone: (S, S^D, D, S).
    moved = (torch.full_like(x, y) for y in range(reverse.process.num_states))
    first_at_u = torch.stack([reverse.with_own_evidence(first, x, t, y, u).probs for y in moved])
    step_given_x0 = [_known_step(reverse, law.ndim, site, u, s) for site in sites]

    def second(i: Tensor, j: int) -> Tensor:
        first_here = torch.stack([first_at_u[x[j, site], i, site] for site in sites], dim=1)
        probs = (2 * later[j] - first_here).clamp_(min=0)
        probs = probs / probs.sum(-1, keepdim=True)
        return torch.stack([probs[:, site] @ step_given_x0[site][x[j, site]] for site in sites], dim=1)

    return push_pairs(law, reverse.step_probs(x, t, u, posterior=first), second, accuracy.negligible)


def _known_step(reverse: ReverseProcess, sites: int, site: int, t: float, s: float) -> Tensor:
    """p(x_s = v | x_t = y, x0) at [y, x0, v], 0 where y cannot come from x0."""
    early, between = (site_kernels(reverse.process, (sites,), *times)[site] for times in ((s,), (t, s)))
    joint = (early[:, :, None] * between[None]).permute(2, 0, 1)
    total = joint.sum(-1, keepdim=True)
    return torch.where(total > 0, joint / torch.where(total > 0, total, 1.0), 0.0)


@pushforward_step.register
def _(sampler: FirstJump, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    """The time of the first jump is integrated over by Gauss's rule with 7 points, in the amount of noise.

    Its density is smooth in that, and in t it need not be: log-linear schedules end at a rate of 1,000.
    """
    process, x, weights = reverse.process, _states(law), law.reshape(-1)
    total, rate = process.schedule.total, process.schedule.rate
    low, noise = float(total(s)), float(process.schedule.between(s, t))
    posterior = reverse.with_own_evidence(_posterior(reverse, x, (t + s) / 2), x, (t + s) / 2, x, t)
    leaving = process.exit_rate(x, 1.0, dtype=torch.float64) / process.schedule.rate(1.0)  # of R_b

    def stays(u: float) -> Tensor:
        """The probability that no site has jumped between t and u."""
        moved = torch.exp(-leaving * process.schedule.between(u, t))
        early, late = (process.kernel_into(x, time, dtype=torch.float64) for time in (u, t))
        known = torch.where(late > 0, posterior.probs * early / torch.where(late > 0, late, 1.0), 0.0)
        return (moved * known.sum(-1)).prod(-1)

    out = (weights * stays(s)).reshape(law.shape)
    nodes, weights_of_nodes = np.polynomial.legendre.leggauss(7)
    for node, weight in zip(nodes.tolist(), weights_of_nodes.tolist(), strict=True):
        u = min(t, max(s, float(process.schedule.inverse_total(low + noise * (node + 1) / 2))))
        rates = reverse.rates(x, u, posterior=reverse.with_own_evidence(posterior, x, t, x, u))
        density = joint_generator(rates).fill_diagonal_(0.0) * (weights * stays(u))[:, None]
        middle = (u + s) / 2
        posterior_after = reverse.with_own_evidence(_posterior(reverse, x, middle), x, middle, x, u)
        jumped = weight * noise / 2 / float(rate(u)) * density.sum(0)
        out += push_sites(jumped, reverse.step_probs(x, u, s, posterior=posterior_after))
    return out


@pushforward_step.register
def _(sampler: NextReaction, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    """Within a step of the rule the chain is homogeneous, and its law a matrix exponential."""
    x, number = _states(law), math.ceil((t - s) / sampler.step_size - 1e-9)
    length, flat = (t - s) / number, law.reshape(-1)
    for i in range(number):
        generator = joint_generator(_rates(reverse, x, t - (i + 0.5) * length))
        flat = flat @ torch.linalg.matrix_exp(length * generator)
    return flat.reshape(law.shape)


@pushforward_step.register(Uniformization)
@pushforward_step.register(FirstHitting)
def _(
    sampler: Uniformization | FirstHitting,
    reverse: ReverseProcess,
    law: Tensor,
    t: float,
    s: float,
    accuracy: Accuracy = FULL,
) -> Tensor:
    """Both simulate the reverse chain itself."""
    return chain_law(reverse, law, t, s, tolerance=accuracy.tolerance)


@pushforward_step.register
def _(
    sampler: WithCorrector, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    law = pushforward_step(sampler.sampler, reverse, law, t, s, accuracy)
    if s >= sampler.start:
        return law
    for _ in range(sampler.steps):
        law = push_corrector(reverse, law, s, sampler.scale * (t - s), sampler.multiple_jumps)
    return law


def push_corrector(
    reverse: ReverseProcess, law: Tensor, t: float, tau: float, multiple_jumps: MultipleJumps | None = None
) -> Tensor:
    """``law`` at t after one leap of the corrector."""
    x, how = _states(law), multiple_jumps or ("add" if reverse.process.ordinal else "reject")
    return push_sites(
        law.reshape(-1), leap_laws(reverse.corrector_rates(x, t, posterior=_posterior(reverse, x, t)), x, tau, how)
    )
