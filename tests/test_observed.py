"""Observed: one type for every pattern of given sites."""

import pytest
import torch

from tauleap import Observed
from tauleap.noise import Constant, Uniform


def test_fill_puts_known_values_in_their_places() -> None:
    mask = torch.tensor([[True, False], [False, True]])
    values = torch.tensor([[7, 7], [8, 8]])
    x = torch.tensor([[1, 2], [3, 4]])
    assert Observed(mask, values).fill(x).tolist() == [[7, 2], [3, 8]]
    assert x.tolist() == [[1, 2], [3, 4]], "x itself stays as it was"


def test_one_pattern_for_the_whole_batch() -> None:
    values = torch.arange(12).reshape(2, 2, 3)
    pattern = torch.tensor([[True, False, True], [False, False, True]])
    observed = Observed(pattern, values)
    assert observed.mask.shape == values.shape
    assert torch.equal(observed.fill(torch.zeros_like(values)), values * pattern)


def test_what_is_not_observed_is_not_looked_at() -> None:
    observed = Observed(torch.tensor([True, False]), torch.tensor([[1, 99], [0, -5]]))
    observed.check(torch.zeros(2, 2, dtype=torch.int64), num_states=2)


def test_a_value_that_is_no_state_is_refused() -> None:
    observed = Observed(torch.tensor([True, False]), torch.tensor([[5, 0]]))
    with pytest.raises(ValueError, match=r"the observed values must hold states 0\.\.1, got values from 0 to 5"):
        observed.check(torch.zeros(1, 2, dtype=torch.int64), num_states=2)


def test_it_cannot_be_changed() -> None:
    observed = Observed(torch.tensor([True]), torch.tensor([[1]]))
    with pytest.raises(AttributeError):
        observed.mask = torch.tensor([[False]])  # pyright: ignore[reportAttributeAccessIssue]


def test_a_sample_may_be_one_site() -> None:
    """x of shape (batch,): a mask of shape (batch,) has one entry per sample, a scalar one is for all."""
    values = torch.tensor([1, 2, 3])
    assert Observed(torch.tensor([True, False, True]), values).fill(torch.zeros(3, dtype=torch.int64)).tolist() == [
        1,
        0,
        3,
    ]
    assert Observed(torch.tensor(True), values).fill(torch.zeros(3, dtype=torch.int64)).tolist() == [1, 2, 3]


def test_noise_can_be_kept_away_from_given_sites() -> None:
    process = Uniform(5, Constant(10.0))
    x0 = torch.arange(400).reshape(100, 4) % 5
    observed = Observed(torch.tensor([True, False, False, True]), x0)
    x = observed.fill(process.noise(x0, 1.0, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(x[:, [0, 3]], x0[:, [0, 3]])
    assert not torch.equal(x[:, 1:3], x0[:, 1:3])
