"""States of sites that have different numbers of them, side by side in one axis without padding.

The sites of a row of a table have 2, 16 or 100 states. Their logits lie in one axis of ``total = sum(sizes)`` entries,
sites of equal size next to each other, so that a group of n sites with m states is a view (batch, n, m): a softmax over
every site takes as many calls as there are different sizes, and as much memory as there are states.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from tauleap import _check
from tauleap._shapes import States

_MOST_STATES = 2**24
"""Of all sites together: a file must not make a program reserve memory without end."""


class Group(NamedTuple):
    """Hold the sites of one size: where their states begin, and how many sites and states there are."""

    start: int
    sites: int
    size: int
    order: slice
    """Their places among the sites in the order of the axis."""

    def of(self, flat: Float[Tensor, "batch total"]) -> Float[Tensor, "batch sites size"]:
        """Return the states of these sites, as a view.

        Args:
            flat: One number per state of each site.
        """
        return flat[:, self.start : self.start + self.sites * self.size].view(-1, self.sites, self.size)


class RaggedLayout(nn.Module):
    """Store the position of each site's states in the common axis.

    Args:
        sizes: The number of states of each site, 1 or more.

    >>> layout = RaggedLayout([3, 2, 3])
    >>> layout.total, layout.offsets, [(group.sites, group.size) for group in layout.groups]
    (8, tensor([2, 0, 5]), [(1, 2), (2, 3)])
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        counts = [_check.integer("every entry of sizes", size, least=1) for size in sizes]
        if not counts:
            raise ValueError("sizes must hold the number of states of at least one site, got none")
        order = sorted(range(len(counts)), key=counts.__getitem__)
        self.total, self.largest = sum(counts), max(counts)
        if self.total > _MOST_STATES:
            raise ValueError(f"sizes must add up to at most {_MOST_STATES:,} states, got {self.total:,}")
        self.groups: list[Group] = []
        offsets, start, place = [0] * len(counts), 0, 0
        for size, members in groupby(order, key=counts.__getitem__):
            sites = list(members)
            for number, site in enumerate(sites):
                offsets[site] = start + number * size
            self.groups.append(Group(start, len(sites), size, slice(place, place + len(sites))))
            start, place = start + size * len(sites), place + len(sites)
        # They follow from the sizes, so that a file of weights need not hold them.
        self._add("sizes", counts)
        self._add("offsets", offsets)
        self._add("order", order)
        self._add("rank", sorted(range(len(order)), key=order.__getitem__))
        # Logits of some sites are padded to a power of two: there are few of them, and the cost less than doubles.
        widths = [min(1 << (size - 1).bit_length(), self.largest) for size in counts]
        self._add("width_of", widths)
        self.widths = sorted(set(widths))
        repeats = torch.tensor([counts[site] for site in order])
        site_of = torch.repeat_interleave(torch.tensor(order), repeats, output_size=self.total)
        self.register_buffer("site_of", site_of, persistent=False)
        self.sizes: Tensor
        self.offsets: Tensor
        self.order: Tensor
        self.rank: Tensor
        """The place of each site in the order of the axis."""
        self.width_of: Tensor
        """For each site the number of states to which its logits are padded beside those of others."""
        self.site_of: Tensor
        """The site of each entry of the axis."""

    def _add(self, name: str, values: list[int]) -> None:
        self.register_buffer(name, torch.tensor(values), persistent=False)

    @property
    def sites(self) -> int:
        """The number of sites."""
        return len(self.sizes)

    def entries(self, x: Int64[Tensor, "batch sites"]) -> Int64[Tensor, "batch sites"]:
        """Return where each site's state is in the axis.

        Args:
            x: States, each below the size of its site.
        """
        return x + self.offsets

    def logsumexp(self, flat: Float[Tensor, "batch total"]) -> Float[Tensor, "batch sites"]:
        """Return the logarithm of the sum of exponentials over the states of each site.

        Args:
            flat: One number per state of each site.
        """
        parts = [group.of(flat).logsumexp(-1) for group in self.groups]
        return torch.cat(parts, 1).index_select(1, self.rank)

    def amax(self, flat: Float[Tensor, "batch total"]) -> Float[Tensor, "batch sites"]:
        """Return the largest number of each site.

        Args:
            flat: One number per state of each site.
        """
        return torch.cat([group.of(flat).amax(-1) for group in self.groups], 1).index_select(1, self.rank)

    def padded(self, flat: Float[Tensor, "batch total"], num_states: int) -> Float[Tensor, "batch sites states"]:
        """Return one row of numbers per site, -inf for states that the site does not have.

        Args:
            flat: One number per state of each site.
            num_states: The length of the rows, at least the largest size.
        """
        places = self.site_of * num_states + torch.arange(self.total, device=flat.device)
        places -= self.offsets[self.site_of]
        out = flat.new_full((len(flat), self.sites * num_states), float("-inf"))
        return out.index_copy(1, places, flat).view(len(flat), self.sites, num_states)

    def rows(self, flat: Float[Tensor, "batch total"], chosen: Tensor, num_states: int) -> Float[Tensor, "n states"]:
        """Return the numbers of some sites, -inf for states that a site does not have.

        Args:
            flat: One number per state of each site.
            chosen: Positions of sites in a batch (batch, sites) that is flattened, int64 (n,).
            num_states: The length of the rows, at least the largest size.
        """
        site = chosen % self.sites
        state = torch.arange(num_states, device=flat.device)
        sizes = self.sizes[site, None]
        entry = (
            self.offsets[site, None] + torch.minimum(state, sizes - 1) + (chosen // self.sites * self.total)[:, None]
        )
        return flat.reshape(-1)[entry].masked_fill_(state >= sizes, float("-inf"))

    def inputs(self, x: States) -> Int64[Tensor, "batch sites"]:
        """Return the row of an embedding table of ``total + sites`` rows for each site's state.

        Every site has a row for each of its states and one more, for the mask of absorbing noise: any state that is not
        below the site's size.

        Args:
            x: The noisy states, (batch, *shape).
        """
        return torch.minimum(x.flatten(1), self.sizes) + self.offsets + self.rank
