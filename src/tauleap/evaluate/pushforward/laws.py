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

    >>> from tauleap import denoise, noise, sampling
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> sample_law(sampling.Ancestral(), reverse, 2, grid=sampling.uniform_grid(20))
    tensor([[0.5412, 0.0000],
            [0.0000, 0.4588]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise, sampling
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> pushforward_grid(sampling.Ancestral(), reverse, prior(reverse, 2), [1.0, 0.5, 0.25])
    tensor([[0.2951, 0.2049],
            [0.2049, 0.2951]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise, sampling
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> steps = trajectory(sampling.Ancestral(), reverse, prior(reverse, 2), [1.0, 0.5, 0.25])
    >>> for t, law in steps:
    ...     print(f"{t:g}: {law[0, 1]:.3f}")
    1: 0.250
    0.5: 0.242
    0.25: 0.205
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

    >>> from tauleap import denoise, noise, sampling
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> start, grid = prior(reverse, 2), [1.0, 0.5, 0.25]
    >>> last, (half,) = laws_at(sampling.Ancestral(), reverse, start, grid, times=[0.4])
    >>> half  # at the time 0.5, which is nearest to 0.4
    tensor([[0.2579, 0.2421],
            [0.2421, 0.2579]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> marginal(reverse, data, 0.1)
    tensor([[0.4176, 0.0824],
            [0.0824, 0.4176]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> prior(reverse, 2)
    tensor([[0.2500, 0.2500],
            [0.2500, 0.2500]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.75, 0.0], [0.0, 0.25]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> reverse_chain_law(reverse, data, 0.0)  # not the data, since q_1 is not quite the prior
    tensor([[0.7433, 0.0000],
            [0.0000, 0.2567]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> apply_final(reverse, marginal(reverse, data, 0.1), 0.1, "sample")
    tensor([[0.4507, 0.0493],
            [0.0493, 0.4507]], dtype=torch.float64)
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

    >>> from tauleap import denoise, noise
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> apply_mode(reverse, torch.tensor([[0.5, 0.125], [0.0, 0.375]]), 0.1)
    tensor([[0.6250, 0.0000],
            [0.0000, 0.3750]])
    """
    predicted = reverse.posterior(states_of(law), t).mode
    return torch.zeros_like(law).index_put_(tuple(predicted.T), law.reshape(-1), accumulate=True)
