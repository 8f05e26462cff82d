"""Permutations that are computed entry by entry."""

import pytest
import torch

from tauleap._permutation import Permutation
from tauleap.training import order
from tauleap.training.order import Order


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097])
def test_every_entry_comes_once(size: int) -> None:
    for seed in range(3):
        found = Permutation(size, seed).take(torch.arange(size))
        assert torch.equal(found.sort().values, torch.arange(size))


def test_all_orders_of_four_come_equally_often() -> None:
    """24 orders, 12,000 seeds: chi-squared with 23 degrees of freedom is below its 0.9999 quantile, 58.6."""
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(12_000):
        key = tuple(Permutation(4, seed).take(torch.arange(4)).tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 24
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 58.6


def test_places_of_a_large_permutation_are_uniform_and_neighbours_independent() -> None:
    """Means of 100,000 uniform numbers and of products of neighbours, within five standard errors."""
    size = 10**12 + 7
    found = Permutation(size, 3).take(torch.arange(100_000)).double() / size
    assert abs(float(found.mean()) - 0.5) < 5 / (12 * 100_000) ** 0.5
    products = (found[1:] - 0.5) * (found[:-1] - 0.5) * 12
    assert abs(float(products.mean())) < 5 / 100_000**0.5
    assert len(found.unique()) == 100_000


def test_rows_beyond_a_list_are_seen_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_LISTED", 10)
    rows = Order(23, seed=5)
    seen = torch.cat([rows.take(begin, 7) for begin in range(0, 69, 7)])[:69]
    for epoch in seen.split(23):
        assert torch.equal(epoch.sort().values, torch.arange(23))
    assert not torch.equal(seen[:23], seen[23:46])
    assert torch.equal(rows.take(20, 10), seen[20:30])
