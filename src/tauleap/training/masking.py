"""Draw the observed sites of training rows, so that one model completes any pattern."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import SiteMask, States


@dataclass(frozen=True)
class RandomMasks:
    """Draw a pattern of observed sites for each row of a batch: none, scattered sites, or a span, a hole or a box.

    With probability ``p_unconditional`` no site is observed, which trains the unconditional model. Otherwise, with
    probability ``spans``, the pattern is an interval of a sequence (a prefix or a suffix in half of the cases), or a
    box in the last two axes of images, or the complement of one. The remaining rows have k scattered sites of n, with
    k uniform on 0 .. n-1 and all sets of k sites equally likely, so that every pattern has positive probability.

    With ``prefix``, a fraction ``prefixes`` of the rows has exactly the first ``prefix`` sites observed, for
    models whose main use is to continue a beginning.

    At least one site of each row stays unobserved. Random numbers are drawn for the whole batch, row by row.

    Args:
        p_unconditional: The probability that no site is observed, in [0, 1]. Default: 0.25.
        spans: The probability of an interval or box among the other rows, in [0, 1]. Default: 0.5.
        prefix: The length of the prefix, in sites. Default: None, no prefixes.
        prefixes: The fraction of rows with that prefix, in [0, 1]; needs ``prefix``. Default: None.

    Raises:
        ValueError: A probability is out of [0, 1], or only one of ``prefix`` and ``prefixes`` is given.

    >>> masks = RandomMasks(p_unconditional=0.0, spans=0.0).draw(
    ...     torch.zeros(3, 8, dtype=torch.int64), generator=torch.Generator().manual_seed(0)
    ... )
    >>> masks.long().sum(1)
    tensor([7, 5, 4])
    """

    p_unconditional: float = 0.25
    spans: float = 0.5
    prefix: int | None = None
    prefixes: float | None = None

    def __post_init__(self) -> None:
        if (self.prefix is None) != (self.prefixes is None):
            raise ValueError(
                "prefix (a length) and prefixes (a fraction of rows) are given together: write both, such as "
                "RandomMasks(prefix=32, prefixes=0.5)"
            )
        if self.prefix is not None:
            _check.integer("prefix", self.prefix, least=1)
        for name in ("p_unconditional", "spans", *(("prefixes",) if self.prefix is not None else ())):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"{name} must be a probability in [0, 1], got {value!r}")

    def draw(self, x: States, *, closed: SiteMask | None = None, generator: torch.Generator | None = None) -> SiteMask:
        """Return the mask of the observed sites of every row.

        Args:
            x: The rows of a batch.
            closed: Sites that are never observed, such as missing ones. Default: none.
            generator: The source of randomness. Default: that of torch.

        Returns:
            True at observed sites.
        """
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
        # A span that covers every site is replaced by scattered sites, which never do.
        learnt = (free & ~span).reshape(batch, -1).any(1)
        kind = which[:, 3]
        spanned = (kind < self.p_unconditional + (1 - self.p_unconditional) * self.spans) & learnt
        out = torch.where(_per_row(spanned, span), span, scattered)
        out = out & ~_per_row(kind < self.p_unconditional, out)
        if self.prefix is not None and self.prefixes is not None:
            out = self._with_prefixes(out, free, generator)
        return out.to(x.device)

    def _with_prefixes(self, out: Tensor, free: Tensor, generator: torch.Generator | None) -> Tensor:
        if out.ndim != 2:
            raise ValueError(f"prefix needs sequences, rows (batch, sites), got rows of shape {tuple(out.shape[1:])}")
        begin = (torch.arange(out.shape[1], device=out.device) < (self.prefix or 0)) & free
        learnt = (free & ~begin).any(1)
        chosen = _draw.uniforms((len(out),), out.device, generator) < (self.prefixes or 0.0)
        return torch.where(_per_row(chosen & learnt, out), begin, out)


def _scattered(order: Tensor, free: Tensor, fraction: Tensor) -> Tensor:
    """Return k of the n free sites of each row, with k uniform on 0 .. n-1: the first k in a random order."""
    rank = order.masked_fill(~free, 2.0).reshape(len(order), -1).argsort(1).argsort(1)
    number = (fraction * free.reshape(len(free), -1).sum(1)).floor()
    return (rank < number[:, None]).reshape(free.shape)


def _box(ends: Tensor, kind: Tensor, sides: list[int]) -> Tensor:
    """Return a random box over the last two axes of each row, or an interval if there is only one axis."""
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
