"""Which sites are given while training, so that one model completes any pattern."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import SiteMask, States


@dataclass(frozen=True)
class RandomMasks:
    """A pattern of observed sites for each row of a batch: nothing, scattered sites, or a span, a hole or a box.

    With probability ``nothing`` no site is observed, which trains the generative model itself. Otherwise, with
    probability ``spans``, it is an interval of a sequence (a prefix or a suffix in half of the cases), or a box in the
    last two axes of pictures, or all but that. What is left has k scattered sites of n, with k uniform on 0 .. n-1 and
    every set of k sites as likely as another, so that every pattern comes.

    With ``prefix`` the first that many sites of a sequence are given, and nothing else, in the share ``prefixes`` of
    the rows: for a model whose main use is known.

    At least one site of each row is left to be learnt. Draws are made for the whole batch, row by row.

    >>> masks = RandomMasks(nothing=0.0, spans=0.0).draw(
    ...     torch.zeros(3, 8, dtype=torch.int64), generator=torch.Generator().manual_seed(0)
    ... )
    >>> masks.long().sum(1)
    tensor([7, 5, 4])
    """

    nothing: float = 0.25
    spans: float = 0.5
    prefix: int | None = None
    prefixes: float | None = None

    def __post_init__(self) -> None:
        if (self.prefix is None) != (self.prefixes is None):
            raise ValueError(
                "a prefix needs its length and its share: write both, such as RandomMasks(prefix=32, prefixes=0.5)"
            )
        if self.prefix is not None:
            _check.integer("prefix", self.prefix, least=1)
        for name in ("nothing", "spans", *(("prefixes",) if self.prefix is not None else ())):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{name} must be a probability in [0, 1], got {value!r}")

    def draw(self, x: States, *, closed: SiteMask | None = None, generator: torch.Generator | None = None) -> SiteMask:
        """Observed sites for the rows x (batch, *shape), never among those that ``closed`` marks (missing ones)."""
        batch, *sides = x.shape
        device = _device.exact_device(x.device)
        free = torch.ones(x.shape, dtype=torch.bool) if closed is None else ~closed.expand(x.shape)
        free = free.to(device)
        which = _draw.uniforms((batch, 4), device, generator)
        ends = _draw.uniforms((batch, 2, len(sides)), device, generator)
        order = _draw.uniforms(x.shape, device, generator)

        scattered = _scattered(order, free, which[:, 0])
        span = _box(ends, which[:, 1], sides)
        span = (span ^ _per_row(which[:, 2] < 0.5, span)) & free
        # A span that leaves nothing to learn gives way to scattered sites, which always do.
        learnt = (free & ~span).reshape(batch, -1).any(1)
        wanted = which[:, 3]
        spanned = (wanted < self.nothing + (1 - self.nothing) * self.spans) & learnt
        out = torch.where(_per_row(spanned, span), span, scattered)
        out = out & ~_per_row(wanted < self.nothing, out)
        if self.prefix is not None and self.prefixes is not None:
            out = self._with_prefixes(out, free, generator)
        return out.to(x.device)

    def _with_prefixes(self, out: Tensor, free: Tensor, generator: torch.Generator | None) -> Tensor:
        if out.ndim != 2:
            raise ValueError(f"a prefix is for sequences, rows (batch, sites), got rows of {tuple(out.shape[1:])}")
        begin = (torch.arange(out.shape[1], device=out.device) < (self.prefix or 0)) & free
        learnt = (free & ~begin).any(1)
        chosen = _draw.uniforms((len(out),), out.device, generator) < (self.prefixes or 0.0)
        return torch.where(_per_row(chosen & learnt, out), begin, out)


def _scattered(order: Tensor, free: Tensor, share: Tensor) -> Tensor:
    """k free sites of each row, with k uniform on 0 .. n-1 of its n: those that come first in a random order."""
    rank = order.masked_fill(~free, 2.0).reshape(len(order), -1).argsort(1).argsort(1)
    number = (share * free.reshape(len(free), -1).sum(1)).floor()
    return (rank < number[:, None]).reshape(free.shape)


def _box(ends: Tensor, kind: Tensor, sides: list[int]) -> Tensor:
    """A random box over the last two axes of each row, an interval where there is one; all of the axes before them."""
    low, high = ends.sort(1).values.unbind(1)
    if len(sides) == 1:
        # A quarter of the intervals begins at the beginning and a quarter ends at the end: prefixes and suffixes.
        low = low.masked_fill((kind < 0.25)[:, None], 0.0)
        high = high.masked_fill((kind >= 0.75)[:, None], 1.0)
    out = torch.ones((len(ends), *sides), dtype=torch.bool, device=ends.device)
    for axis in range(max(0, len(sides) - 2), len(sides)):
        place = (torch.arange(sides[axis], device=ends.device) + 0.5) / sides[axis]
        inside = (place >= low[:, axis, None]) & (place < high[:, axis, None])
        out = out & inside.reshape([len(ends), *(n if i == axis else 1 for i, n in enumerate(sides))])
    return out


def _per_row(value: Tensor, like: Tensor) -> Tensor:
    return value.reshape(-1, *(1,) * (like.ndim - 1)).expand(like.shape)
