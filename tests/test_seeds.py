"""Seeds: their range, and seeds that are derived from others."""

import numpy as np
import pytest

from tauleap._seeds import check_seed, derive_seed


def test_seeds_differ() -> None:
    words = [(0, "noise", 1), (0, "noise", 2), (1, "noise", 1), (0, "noise1", ""), (0, "order", 1), (0, "noise", 1, 0)]
    seeds = [derive_seed(*word) for word in words]
    assert len(set(seeds)) == len(words)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(0, "noise", 1) == 2376061928063757211, "another seed would change every run that is resumed"


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1, np.int64(3)])
def test_seeds_in_range(seed: int) -> None:
    assert check_seed(seed) == seed
    assert type(check_seed(seed)) is int


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**63, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_seeds_out_of_range(seed: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^--seed must be a whole number from 0 to 2\*\*63 - 1, got "):
        check_seed(seed, name="--seed")
