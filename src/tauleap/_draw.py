"""Draws from distributions over states, by inverse CDF in float64: exact in the tails, reproducible by generator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tauleap import _device

_SMALLEST = 5e-324  # above 0, so that a state of weight 0 is never the first
_QUICKER_COMPARED = 2**15  # numbers, of which comparing all is quicker than the calls of a search
_NARROW = 32  # states, of which a sum over all comparisons is quicker than a search that branches


class PartOfBatch(torch.Generator):
    """Draw for one part of a batch the numbers that it would get in a draw for the whole batch.

    Several processes that hold one part each and use the same seed draw together the same numbers as one process that
    holds the whole batch and uses an ordinary generator. The first axis of a draw must be the batch, or sites in its
    order.

    Args:
        part: The number of the part, from 0.
        parts: The number of equal parts.
        device: The device of the generator. Default: the CPU.

    >>> whole = uniforms((4, 2), torch.device("cpu"), torch.Generator().manual_seed(7))
    >>> second = uniforms((2, 2), torch.device("cpu"), PartOfBatch(1, 2).manual_seed(7))
    >>> torch.equal(second, whole[2:])
    True
    """

    def __new__(cls, part: int, parts: int, device: torch.device | str = "cpu") -> PartOfBatch:
        return super().__new__(cls, device)  # pyright: ignore[reportCallIssue] (torch declares __init__ alone)

    def __init__(self, part: int, parts: int, device: torch.device | str = "cpu") -> None:
        self.part, self.parts = part, parts


def uniforms(shape: Sequence[int], device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Return float64 numbers in [0, 1), drawn on the generator's device and moved to ``device``."""
    if isinstance(generator, PartOfBatch) and shape:
        number, *rest = shape
        drawn = _part(_rand((generator.parts * number, *rest), device, generator), generator)
    else:
        drawn = _rand(shape, device, generator)
    # float64 on every device, since rounded draws could reach 1.
    return drawn if drawn.device == device else _device.moved_to(drawn, device, torch.float64)


def stratified(number: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Return ``number`` stratified draws from [0, 1) in float64: one in each of as many parts, in random order."""
    total = number * (generator.parts if isinstance(generator, PartOfBatch) else 1)
    within = _rand((total,), device, generator)
    places = (_rand((total,), device, generator).argsort() + within) / total
    if isinstance(generator, PartOfBatch):
        places = _part(places, generator)
    return places if places.device == device else _device.moved_to(places, device, torch.float64)


def _rand(shape: Sequence[int], device: torch.device, generator: torch.Generator | None) -> Tensor:
    where = device if generator is None else generator.device
    if _device.lacks_float64(where):  # without it there are no tails
        raise ValueError(f"a generator on {where} cannot draw in float64: write torch.Generator() for one on the CPU")
    return torch.rand(tuple(shape), dtype=torch.float64, device=where, generator=generator)


def _part(whole: Tensor, generator: PartOfBatch) -> Tensor:
    return whole.chunk(generator.parts)[generator.part] if len(whole) else whole


def categorical(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return one state per row of nonnegative ``weights`` (..., S), which need not sum to 1.

    States of weight 0 are never drawn. A row of zeros defines no distribution and returns S, which is not a state:
    callers check for such rows first.
    """
    cdf = cumulative(weights)
    target = targets(cdf[..., -1], generator).unsqueeze(-1)
    if cdf.numel() <= _QUICKER_COMPARED:
        return (cdf < target).sum(-1)
    if cdf.shape[-1] <= _NARROW and _device.is_host(cdf.device):
        below = torch.lt(cdf, target, out=torch.empty_like(cdf, dtype=torch.float32))
        return torch.mv(below.view(-1, cdf.shape[-1]), below.new_ones(cdf.shape[-1])).long().view(cdf.shape[:-1])
    return torch.searchsorted(cdf, target).squeeze(-1)


def cumulative(weights: Tensor) -> Tensor:
    """Return running sums in float64 along the last axis."""
    return weights.to(torch.float64).cumsum(-1)


def from_cdf(cdf: Tensor, rows: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return, for each entry of ``rows``, a state drawn from that row of the table ``cdf`` (N, S).

    A binary search with one gather per halving: no (rows, S) tensor is made, and one table serves any number of draws.
    """
    return first_to_reach(cdf, rows, targets(cdf[:, -1][rows], generator))


def from_law(law: Tensor, shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
    """Return states of the given (batch, *shape), drawn from ``law``, (S,) or (*shape, S)."""
    table = cumulative(law.reshape(-1, law.shape[-1]))
    sites = torch.arange(len(table), device=law.device).reshape(law.shape[:-1]).expand(shape)
    return from_cdf(table, sites.reshape(-1), generator).reshape(shape)


def targets(total: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return a uniform draw in (0, total] per entry of ``total``: a target that the running sum of its row reaches."""
    return uniforms(total.shape, total.device, generator).mul_(total).clamp_(min=_SMALLEST)


def first_to_reach(cdf: Tensor, rows: Tensor, target: Tensor) -> Tensor:
    """Return, for each entry of ``rows``, the first state whose running sum in that row reaches ``target``."""
    size = cdf.shape[-1]
    if rows.numel() * size <= _QUICKER_COMPARED:
        return (cdf.index_select(0, rows.reshape(-1)) < target.reshape(-1, 1)).sum(-1).reshape(rows.shape)
    flat, start = cdf.reshape(-1), rows * size
    state = torch.zeros_like(rows)
    step = 1 << (size.bit_length() - 1)
    while step:
        probe = state + step
        fits = (probe < size) & (flat.index_select(0, start + (probe - 1).clamp_(max=size - 1)) < target)
        state = torch.where(fits, probe, state)
        step >>= 1
    return state
