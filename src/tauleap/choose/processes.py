"""Choose a forward process by its name, with a schedule for the number of states."""

from __future__ import annotations

import math
from copy import deepcopy

import torch
from torch import Tensor

from tauleap import _device
from tauleap.choose.marginals import column_marginals
from tauleap.data import Dataset
from tauleap.noise import Absorbing, BirthDeath, Exponential, ForwardProcess, Gaussian, LogLinear, RankOne

PROCESSES = ("absorbing", "uniform", "rank-one", "gaussian", "birth-death")
"""The last two are for ordered states."""
_MOST_ORDERED = 1024
"""States of a process that is not of rank one: its kernels are matrices (S, S), one for each time of a batch."""
_MOST_ENTRIES = 2**22
"""Sites times states up to which rank-one noise has a distribution per site; beyond, all sites share one."""
_LEFT = 1e-3
"""The part of the slowest mode that is left at time 1, as in the log-linear schedule."""


def choose_process(
    process: ForwardProcess | str | None, data: Dataset, *, ordinal: bool, is_image: bool
) -> tuple[ForwardProcess, str]:
    """Return a forward process for the data and the reason for it.

    Args:
        process: A process, one of ``PROCESSES``, or None for the default, absorbing noise.
        data: The rows.
        ordinal: Whether the states are ordered quantities.
        is_image: Whether the rows are treated as images.

    Raises:
        ValueError: The name is unknown, or the process does not fit the data.
        TypeError: The argument is neither a name nor a process.
    """
    if process is None:
        return _absorbing(data), f"noise: {_why_absorbing(data, is_image)}"
    if isinstance(process, ForwardProcess):
        _check_process(process, data)
        own = deepcopy(process).to(_device.CPU)  # Training moves the copy to its device.
        return own, f"noise: {type(process).__name__}, as given"
    if not isinstance(process, str):
        raise TypeError(
            f"process must be one of {', '.join(PROCESSES)}, or a ForwardProcess, got {type(process).__name__}"
        )
    if process not in PROCESSES:
        raise ValueError(f"process must be one of {', '.join(PROCESSES)}, or a ForwardProcess, got {process!r}")
    return _named(process, data, ordinal), f"noise: {process}, as given"


def _named(name: str, data: Dataset, ordinal: bool) -> ForwardProcess:
    if name == "absorbing":
        return _absorbing(data)
    if name == "uniform":
        return RankOne(_uniform(data), LogLinear())
    if name == "rank-one":
        marginals = column_marginals(data)
        if data.sizes is None and marginals.numel() > _MOST_ENTRIES:
            marginals = marginals.reshape(-1, data.num_states).mean(0)
        return RankOne(marginals, LogLinear())
    states = data.num_states
    if not ordinal or data.sizes is not None:
        why = "the sites have different numbers of states" if data.sizes is not None else "these are categories"
        raise ValueError(
            f"{name} noise needs ordered values, but {why}: write absorbing, uniform or rank-one, or for an array of "
            "quantities ordinal=True (--ordinal True)"
        )
    if states > _MOST_ORDERED:
        raise ValueError(
            f"{name} noise needs <= {_MOST_ORDERED} states, got {states:,}: write absorbing, uniform or rank-one"
        )
    if name == "birth-death":
        return BirthDeath(states, _mixing(BirthDeath(states, Exponential(1.0, 2.0))))
    sizes = {"sigma_0": 2.0 * states, "sigma_r": max(1.0, 6 * states / 256)}  # for images in the paper: 512 and 6
    return Gaussian(states, _mixing(Gaussian(states, Exponential(1.0, 2.0), **sizes)), **sizes)


def _absorbing(data: Dataset) -> Absorbing:
    return Absorbing(data.num_states + 1, LogLinear(), sizes=data.sizes)


def _why_absorbing(data: Dataset, is_image: bool) -> str:
    if is_image:
        return (
            f"absorbing, because for images of {data.num_states} levels it gave better bits/dim in the same time than "
            "Gaussian noise"
        )
    sizes = "" if data.sizes is None else f", {int(data.sizes.min())} to {int(data.sizes.max())} per site,"
    return (
        f"absorbing, because {math.prod(data.shape)} sites of {data.num_states} states{sizes} are treated as categories"
    )


def _uniform(data: Dataset) -> Tensor:
    """Return the uniform distribution over the states that each site has, (S,) or (*shape, S)."""
    if data.sizes is None:
        return torch.full((data.num_states,), 1 / data.num_states, dtype=torch.float64)
    possible = (torch.arange(data.num_states) < data.sizes[..., None]).double()
    return possible / possible.sum(-1, keepdim=True)


def _mixing(process: ForwardProcess) -> Exponential:
    """Return a schedule after which the process is nearly stationary, with few jumps near the data.

    ``c(t) = a (b^t - 1)`` with about one jump per ``a``, and a ``c(1)`` after which ``_LEFT`` of the slowest mode
    remains. For birth and death this is close to the paper's schedule.
    """
    generator, law = process.generator(), process.prior()
    half = law.sqrt()
    symmetric = half[:, None] * generator / half
    gap = -float(torch.linalg.eigvalsh((symmetric + symmetric.T) / 2)[-2])
    total = -math.log(_LEFT) / gap
    a = 1 / float(-(law * generator.diagonal()).sum())
    return Exponential(a, 1 + total / a)


def _check_process(process: ForwardProcess, data: Dataset) -> None:
    """Raise ValueError if the process lacks states of the data, or leads a site into states that it does not have."""
    if int(process.data_states.sum(-1).max()) < data.num_states:
        raise ValueError(
            f"the process has {process.num_states} states, too few for data with {data.num_states} states: write "
            f"Absorbing({data.num_states + 1}, LogLinear()), which includes the mask, or RankOne(prior, LogLinear())"
        )
    if data.sizes is not None:
        allowed = process.data_states.cpu().expand(*data.shape, -1)
        beyond = torch.arange(process.num_states) >= data.sizes[..., None]
        if bool((allowed & beyond).any()):
            raise ValueError(
                "the sites have different numbers of states, but the process does not: write Absorbing(..., "
                "sizes=data.sizes), or RankOne with a prior (*shape, S) that is 0 at impossible states"
            )
