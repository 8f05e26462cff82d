"""Distributions of noised data, of priors and of samples, on a small joint space."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from tauleap import _device
from tauleap.evaluate.independent_sites import push_sites
from tauleap.evaluate.joint_space import site_kernels
from tauleap.evaluate.pushforward.step import FULL, Accuracy, exact_posterior, pushforward_step, states_of
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Sampler


def sample_law(
    sampler: Sampler,
    reverse: ReverseProcess,
    sites: int,
    grid: Iterable[float] | Tensor,
    final: Literal["mode", "sample", "none"] = "mode",
    *,
    accuracy: Accuracy = FULL,
) -> Tensor:
    """Return the distribution of the result of ``tauleap.sample`` with these arguments, a table (S,)*D.

    Args:
        sampler: The sampler.
        reverse: The reverse process.
        sites: The number of sites D.
        grid: The decreasing times of the steps.
        final: The final step, as in ``tauleap.sample``. Default: "mode".
        accuracy: The accuracy where digits cost time. Default: full.
    """
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
    """Return the pushforward of ``law`` under all steps of a grid.

    Args:
        sampler: The sampler.
        reverse: The reverse process.
        law: The distribution (S,)*D at the first time of the grid.
        grid: The decreasing times of the steps.
        accuracy: The accuracy where digits cost time. Default: full.
    """
    return deque(trajectory(sampler, reverse, law, grid, accuracy=accuracy), maxlen=1).pop()[1]


def trajectory(
    sampler: Sampler,
    reverse: ReverseProcess,
    law: Tensor,
    grid: Iterable[float] | Tensor,
    *,
    accuracy: Accuracy = FULL,
) -> Iterator[tuple[float, Tensor]]:
    """Yield every time of the grid with the distribution there, starting with ``law`` at the first.

    Args:
        sampler: The sampler.
        reverse: The reverse process.
        law: The distribution (S,)*D at the first time of the grid.
        grid: The decreasing times of the steps.
        accuracy: The accuracy where digits cost time. Default: full.
    """
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
    """Return the pushforward of ``law`` at the last time of the grid and near the given times.

    The latter are those at the nearest times of the grid.

    Args:
        sampler: The sampler.
        reverse: The reverse process.
        law: The distribution (S,)*D at the first time of the grid.
        grid: The decreasing times of the steps.
        times: The times of the intermediate distributions.
        accuracy: The accuracy where digits cost time. Default: full.
    """
    steps = [float(t) for t in grid]
    nearest = [min(steps, key=lambda t, time=time: abs(t - time)) for time in times]
    found, last = {}, law
    for t, last in trajectory(sampler, reverse, law, steps, accuracy=accuracy):
        if t in nearest:
            found[t] = last
    return last, [found[t] for t in nearest]


def marginal(reverse: ReverseProcess, data: Tensor, t: float) -> Tensor:
    """Return the marginal q_t of noised data, (S,)*D.

    Args:
        reverse: The reverse process, of which only the forward process is used.
        data: The distribution of the data, (S,)*D.
        t: The time, in [0, 1].
    """
    law = _device.exact_on_cpu(data)
    for site, kernel in enumerate(site_kernels(reverse.on_cpu().process, (data.ndim,), t)):
        law = (law.movedim(site, -1) @ kernel).movedim(-1, site)
    return law


def prior(reverse: ReverseProcess, sites: int) -> Tensor:
    """Return the distribution from which sampling starts, (S,)*D: independent sites, each with its sampling prior.

    Args:
        reverse: The reverse process.
        sites: The number of sites D.
    """
    each = reverse.on_cpu().process.sampling_prior()
    law = torch.ones((), dtype=torch.float64, device=each.device)
    for one in each.expand(sites, -1):
        law = law[..., None] * one
    return law


def reverse_chain_law(reverse: ReverseProcess, data: Tensor, t: float) -> Tensor:
    """Return the distribution at t of the exact reverse chain from the prior, in closed form.

    It has the true posterior of the data. By Bayes' rule, sum_x p_ref(x) q(x_t | x_1 = x) = q_t(x_t) sum_x q_1|t(x |
    x_t) p_ref(x) / q_1(x).

    Args:
        reverse: The reverse process, of which only the forward process is used.
        data: The distribution of the data, (S,)*D.
        t: The time, in [0, 1].
    """
    start, last = prior(reverse, data.ndim), marginal(reverse, data, 1.0)
    law = torch.where(start > 0, start / torch.where(start > 0, last, 1.0), 0.0)
    for site, kernel in enumerate(site_kernels(reverse.on_cpu().process, (data.ndim,), 1.0, t)):
        law = (law.movedim(site, -1) @ kernel.mT).movedim(-1, site)
    return marginal(reverse, data, t) * law


def apply_final(reverse: ReverseProcess, law: Tensor, t: float, final: Literal["mode", "sample", "none"]) -> Tensor:
    """Return the distribution after the final step of ``tauleap.sample``.

    Args:
        reverse: The reverse process.
        law: The distribution (S,)*D at time t.
        t: The last time of the grid.
        final: The final step, as in ``tauleap.sample``.
    """
    reverse, law = reverse.on_cpu(), _device.exact_on_cpu(law)
    if final == "none":
        return law
    if final == "mode":
        return apply_mode(reverse, law, t)
    return push_sites(law.reshape(-1), exact_posterior(reverse, states_of(law), t).probs)


def apply_mode(reverse: ReverseProcess, law: Tensor, t: float) -> Tensor:
    """Return the distribution after every state is replaced by the most probable x0, as ``final="mode"`` does.

    Args:
        reverse: The reverse process.
        law: The distribution (S,)*D at time t.
        t: The last time of the grid.
    """
    predicted = reverse.posterior(states_of(law), t).mode
    return torch.zeros_like(law).index_put_(tuple(predicted.T), law.reshape(-1), accumulate=True)
