"""Draws from laws over states, by inverse CDF in float64: right in the tails, and the same for the same generator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def uniforms(shape: Sequence[int], device: torch.device, generator: torch.Generator | None) -> Tensor:
    """float64 numbers in [0, 1), drawn where the generator lives and moved to ``device``."""
    where = device if generator is None else generator.device
    if where.type == "mps":  # no float64 there, and so no tails
        raise ValueError("a generator on mps cannot draw in float64: write torch.Generator() for one on the CPU")
    return torch.rand(tuple(shape), dtype=torch.float64, device=where, generator=generator).to(device)


def categorical(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One state per row of nonnegative ``weights`` (..., S), which need not sum to 1; one of weight 0 never comes."""
    flat = weights.reshape(-1, weights.shape[-1])
    rows = torch.arange(flat.shape[0], device=flat.device)
    return from_cdf(cumulative(flat), rows, generator).reshape(weights.shape[:-1])


def cumulative(weights: Tensor) -> Tensor:
    """Running sums in float64 along the last axis."""
    return weights.to(torch.float64).cumsum(-1)


def from_cdf(cdf: Tensor, rows: Tensor, generator: torch.Generator | None) -> Tensor:
    """For each entry of ``rows`` a state from that row of the table ``cdf`` (N, S): the first whose sum exceeds u.

    A binary search with one gather a halving: no (rows, S) tensor is made, and one table serves any number of draws.
    """
    total = cdf[:, -1][rows]
    below_total = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(uniforms(rows.shape, cdf.device, generator) * total, below_total)
    size = cdf.shape[-1]
    flat, start = cdf.reshape(-1), rows * size
    state = torch.zeros_like(rows)
    step = 1 << (size.bit_length() - 1)
    while step:
        probe = state + step
        fits = (probe < size) & (flat[start + (probe - 1).clamp(max=size - 1)] <= target)
        state = torch.where(fits, probe, state)
        step >>= 1
    return state
