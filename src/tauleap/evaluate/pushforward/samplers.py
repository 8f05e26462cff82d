"""The exact kernels of the steps of the samplers."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from tauleap.evaluate.exact import chain_law
from tauleap.evaluate.independent_sites import push_pairs, push_sites
from tauleap.evaluate.joint_space import joint_generator, step_given_x0_table
from tauleap.evaluate.leaps import leap_laws
from tauleap.evaluate.pushforward.gibbs import push_gibbs
from tauleap.evaluate.pushforward.step import (
    FULL,
    Accuracy,
    exact_posterior,
    exact_rates,
    pushforward_step,
    states_of,
)
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
)
from tauleap.sampling.tau_leaping import MultipleJumps


@pushforward_step.register
def _(sampler: TauLeaping, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    x, how = states_of(law), sampler.multiple_jumps or ("add" if reverse.process.ordinal else "reject")
    return push_sites(law.reshape(-1), leap_laws(exact_rates(reverse, x, t), x, t - s, how))


@pushforward_step.register
def _(sampler: Ancestral, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    x, u = states_of(law), t - sampler.look_ahead * (t - s)
    posterior = reverse.with_own_evidence(exact_posterior(reverse, x, u), x, u, x, t)
    return push_sites(law.reshape(-1), reverse.step_probs(x, t, s, posterior=posterior))


@pushforward_step.register
def _(
    sampler: Trapezoidal, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    x, u = states_of(law), t - sampler.theta * (t - s)
    a1, a2 = sampler.weights
    rates, later = exact_rates(reverse, x, t), exact_rates(reverse, x, u)

    def second(i: Tensor, j: int) -> Tensor:
        here = x[j].expand(len(i), -1)
        extrapolated = (a1 * later[j] - a2 * rates[i]).clamp_(min=0).scatter_(-1, here[..., None], 0.0)
        return leap_laws(extrapolated, here, u - s, "last")

    return push_pairs(law, leap_laws(rates, x, t - u, "last"), second, accuracy.negligible)


@pushforward_step.register
def _(
    sampler: Extrapolated, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    x, u, sites = states_of(law), (t + s) / 2, range(law.ndim)
    first, later = exact_posterior(reverse, x, t), exact_posterior(reverse, x, u).probs
    # The first prediction for a site of x* depends on x* only by the site's own state: (S, S^D, D, S).
    moved = (torch.full_like(x, y) for y in range(reverse.process.num_states))
    first_at_u = torch.stack([reverse.with_own_evidence(first, x, t, y, u).probs for y in moved])
    step_given_x0 = [step_given_x0_table(reverse.process, law.ndim, site, u, s) for site in sites]

    def second(i: Tensor, j: int) -> Tensor:
        first_here = torch.stack([first_at_u[x[j, site], i, site] for site in sites], dim=1)
        probs = (2 * later[j] - first_here).clamp_(min=0)
        probs = probs / probs.sum(-1, keepdim=True)
        return torch.stack([probs[:, site] @ step_given_x0[site][x[j, site]] for site in sites], dim=1)

    return push_pairs(law, reverse.step_probs(x, t, u, posterior=first), second, accuracy.negligible)


@pushforward_step.register
def _(sampler: FirstJump, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    """Integrate over the time of the first jump by Gauss's rule with 7 points, in the amount of noise.

    Its density is smooth in that, and in t it need not be: log-linear schedules end at a rate of 1,000.
    """
    process, x, weights = reverse.process, states_of(law), law.reshape(-1)
    total, rate = process.schedule.total, process.schedule.rate
    low, noise = float(total(s)), float(process.schedule.between(s, t))
    posterior = reverse.with_own_evidence(exact_posterior(reverse, x, (t + s) / 2), x, (t + s) / 2, x, t)
    leaving = process.exit_rate(x, 1.0, dtype=torch.float64) / process.schedule.rate(1.0)  # of R_b

    def stays(u: float) -> Tensor:
        """Return the probability that no site has jumped between t and u."""
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
        posterior_after = reverse.with_own_evidence(exact_posterior(reverse, x, middle), x, middle, x, u)
        jumped = weight * noise / 2 / float(rate(u)) * density.sum(0)
        out += push_sites(jumped, reverse.step_probs(x, u, s, posterior=posterior_after))
    return out


@pushforward_step.register
def _(sampler: NextReaction, reverse: ReverseProcess, law: Tensor, t: float, s: float, _: Accuracy = FULL) -> Tensor:
    """Multiply by the matrix exponential of each step of the rule, in which the chain is homogeneous."""
    x, number = states_of(law), math.ceil((t - s) / sampler.step_size - 1e-9)
    length, flat = (t - s) / number, law.reshape(-1)
    for i in range(number):
        generator = joint_generator(exact_rates(reverse, x, t - (i + 0.5) * length))
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
    """Return the law of the reverse chain itself, which both samplers simulate."""
    return chain_law(reverse, law, t, s, tolerance=accuracy.tolerance)


@pushforward_step.register
def _(
    sampler: WithCorrector, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    law = pushforward_step(sampler.sampler, reverse, law, t, s, accuracy)
    if s >= sampler.start:
        return law
    for _ in range(sampler.steps):
        if sampler.kind == "gibbs":
            law = push_gibbs(reverse, law, s, sampler.sites, sampler.selection)
        else:
            law = push_corrector(reverse, law, s, sampler.scale * (t - s), sampler.multiple_jumps)
    return law


def push_corrector(
    reverse: ReverseProcess, law: Tensor, t: float, tau: float, multiple_jumps: MultipleJumps | None = None
) -> Tensor:
    """Return the pushforward of ``law`` under one leap of the corrector.

    Args:
        reverse: The reverse process.
        law: The distribution (S,)*D at time t.
        t: The time, in (0, 1].
        tau: The length of the leap, in time.
        multiple_jumps: The treatment of several jumps at one site, see ``TauLeaping``. Default: that of the process.

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> law = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    >>> push_corrector(reverse, law, 0.1, tau=0.05)
    tensor([[0.8904, 0.0532],
            [0.0532, 0.0032]], dtype=torch.float64)
    """
    x, how = states_of(law), multiple_jumps or ("add" if reverse.process.ordinal else "reject")
    return push_sites(
        law.reshape(-1), leap_laws(reverse.corrector_rates(x, t, posterior=exact_posterior(reverse, x, t)), x, tau, how)
    )
