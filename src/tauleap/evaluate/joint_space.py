"""A space of several sites written out state by state, where it is small enough for that.

A joint law of D sites is a table of shape (S,)*D; "every joint state" is the rows of ``joint_states``, in the order of
the flattened table.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from tauleap.noise import ForwardProcess


@lru_cache
def joint_states(num_states: int, sites: int) -> Tensor:
    """Return every joint state, (S^D, D)."""
    axes = torch.meshgrid(*[torch.arange(num_states)] * sites, indexing="ij")
    return torch.stack([axis.reshape(-1) for axis in axes], dim=-1)


def neighbours(table: Tensor) -> Tensor:
    """Return at [n, d, v] the entry of ``table`` for joint state n with site d set to v: (S^D, D, S)."""
    return table.reshape(-1)[neighbour_numbers(table.shape[0], table.ndim)]


@lru_cache
def neighbour_numbers(num_states: int, sites: int) -> Tensor:
    """Return at [n, d, v] the number of joint state n with site d set to v."""
    strides = num_states ** torch.arange(sites - 1, -1, -1)
    steps = torch.arange(num_states) - joint_states(num_states, sites)[..., None]
    return torch.arange(num_states**sites)[:, None, None] + steps * strides[:, None]


def joint_generator(rates: Tensor) -> Tensor:
    """Return generators (..., S^D, S^D) on the joint space, for jumps of one site with ``rates`` (..., S^D, D, S)."""
    *times, count, sites, size = rates.shape
    out = rates.new_zeros(*times, count, count)
    out.scatter_add_(-1, neighbour_numbers(size, sites).reshape(count, -1).expand(*times, -1, -1), rates.flatten(-2))
    out.diagonal(dim1=-2, dim2=-1).zero_()
    return out - torch.diag_embed(out.sum(-1))


def uniform_states(num_states: int, shape: tuple[int, ...]) -> Tensor:
    """Return S samples (S, *shape): in sample v every site is in state v."""
    return torch.arange(num_states).reshape(-1, *[1] * len(shape)).expand(-1, *shape).contiguous()


def by_site(values: Tensor) -> Tensor:
    """Return values for ``uniform_states``, (S, *shape, S), as one matrix per site, (D, S, S), with a row per state."""
    return values.reshape(len(values), -1, values.shape[-1]).transpose(0, 1)


def site_kernels(process: ForwardProcess, shape: tuple[int, ...], t: float, s: float = 0.0) -> Tensor:
    """Return q_t|s of every site, (D, S, S), by ``kernel_from`` in float64."""
    states = uniform_states(process.num_states, shape)
    return by_site(process.kernel_from(states, t, s, dtype=torch.float64))


def step_given_x0_table(process: ForwardProcess, sites: int, site: int, t: float, s: float) -> Tensor:
    """Return p(x_s = v | x_t = y, x0) at [y, x0, v], 0 where y cannot come from x0."""
    early, between = (site_kernels(process, (sites,), *times)[site] for times in ((s,), (t, s)))
    joint = (early[:, :, None] * between[None]).permute(2, 0, 1)
    total = joint.sum(-1, keepdim=True)
    return torch.where(total > 0, joint / torch.where(total > 0, total, 1.0), 0.0)
