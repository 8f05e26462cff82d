"""Small spaces on which everything can be written down: positive laws of a chain of sites, and three kinds of noise."""

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
    """A process with a constant rate, of which ``total`` = c(1) is the amount by t = 1."""
    schedule = Constant(total)
    if name == "uniform":
        return Uniform(num_states, schedule)
    if name == "birth/death":
        return BirthDeath(num_states, schedule)
    if name == "Gaussian":
        return Gaussian(num_states, schedule, sigma_0=num_states / 2.5, sigma_r=1.0)
    raise ValueError(f"there is no noise {name!r}")


def chain_law(sites: int, num_states: int = STATES, *, field: float = 0.6, coupling: float = 0.5) -> Tensor:
    """Neighbouring sites like to agree, low states are likelier: exp(-field sum x / (S - 1) + coupling agreements).

    Every state is possible, and changing one site changes the probability by at most exp(field + 2 coupling), however
    many sites there are: the assumption of Theorem 1 on the data.
    """
    x = joint_states(num_states, sites).double()
    agreements = (x[:, 1:] == x[:, :-1]).double().sum(-1)
    weights = torch.exp(-field * x.sum(-1) / (num_states - 1) + coupling * agreements)
    return (weights / weights.sum()).reshape([num_states] * sites)


def reversed_chain(name: str, total: float, sites: int, num_states: int = STATES) -> tuple[ReverseProcess, Tensor]:
    """The reverse process with the exact posterior of ``chain_law``, and that law."""
    process, law = noise(name, total, num_states), chain_law(sites, num_states)
    return ReverseProcess(process, ExactDenoiser(law, process)), law


def written_out(processes: Iterable[ForwardProcess]) -> str:
    """Each process as it is written in Python: in a constant schedule the number is c(1), the amount of noise."""
    return ", ".join(f"`{each!r}`" for each in processes)


def joint_kernel(process: ForwardProcess, sites: int, t: float, s: float = 0.0) -> Tensor:
    """q_t|s on the joint space, (S^D, S^D)."""
    kernel = torch.ones(1, 1, dtype=torch.float64)
    for one in site_kernels(process, (sites,), t, s):
        kernel = torch.kron(kernel, one)
    return kernel
