"""Small enumerable spaces: positive distributions of a chain of sites, and three kinds of noise."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import BirthDeath, Constant, ForwardProcess, Gaussian, Uniform
from tauleap.reverse import ReverseProcess

STATES = 3
NOISES = ("uniform", "birth/death", "Gaussian")


def noise(name: str, total: float, num_states: int = STATES) -> ForwardProcess:
    """Return a process with a constant rate whose integral to t = 1 is ``total`` = c(1)."""
    schedule = Constant(total)
    if name == "uniform":
        return Uniform(num_states, schedule)
    if name == "birth/death":
        return BirthDeath(num_states, schedule)
    if name == "Gaussian":
        return Gaussian(num_states, schedule, sigma_0=num_states / 2.5, sigma_r=1.0)
    raise ValueError(f"name must be one of {', '.join(NOISES)}, got {name!r}")


def chain_law(sites: int, num_states: int = STATES, *, field: float = 0.6, coupling: float = 0.5) -> Tensor:
    """Return the distribution proportional to exp(-field sum x / (S - 1) + coupling agreements of neighbours).

    Every state has a positive probability. Changing one site changes it by a factor of at most
    exp(field + 2 coupling) for any number of sites, which is the assumption of Theorem 1 on the data.
    """
    x = joint_states(num_states, sites).double()
    agreements = (x[:, 1:] == x[:, :-1]).double().sum(-1)
    weights = torch.exp(-field * x.sum(-1) / (num_states - 1) + coupling * agreements)
    return (weights / weights.sum()).reshape([num_states] * sites)


def reversed_chain(name: str, total: float, sites: int, num_states: int = STATES) -> tuple[ReverseProcess, Tensor]:
    """Return the reverse process with the exact posterior of ``chain_law``, and that distribution."""
    process, law = noise(name, total, num_states), chain_law(sites, num_states)
    return ReverseProcess(process, ExactDenoiser(law, process)), law


def written_out(processes: Iterable[ForwardProcess]) -> str:
    """Return each process as a Python expression; the argument of a constant schedule is c(1), the amount of noise."""
    return ", ".join(f"`{each!r}`" for each in processes)


def joint_kernel(process: ForwardProcess, sites: int, t: float, s: float = 0.0) -> Tensor:
    """Return q_t|s on the joint space, (S^D, S^D)."""
    kernel = torch.ones(1, 1, dtype=torch.float64)
    for one in site_kernels(process, (sites,), t, s):
        kernel = torch.kron(kernel, one)
    return kernel
