"""Draws by inverse CDF: right at every boundary, right in the tails, the same for the same generator."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tauleap import _draw
from tauleap.testing.laws import assert_drawn_from, count
from tauleap.testing.properties import PROPERTY, SEEDS

LAST = 1 - 2.0**-53
"""The largest number that torch.rand gives in float64."""


def draw_at(monkeypatch: pytest.MonkeyPatch, weights: torch.Tensor, u: list[float]) -> list[int]:
    """The states that the uniform numbers ``u`` lead to."""
    with monkeypatch.context() as patch:
        patch.setattr(_draw, "uniforms", lambda shape, device, generator: torch.tensor(u, dtype=torch.float64))
        return _draw.categorical(weights.expand(len(u), -1), None).tolist()


@PROPERTY
@given(size=st.integers(1, 40), seed=SEEDS)
def test_it_is_the_inverse_of_the_cdf(size: int, seed: int) -> None:
    """Agrees with a search through exact running sums, states of weight 0 included."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randint(0, 4, (size,), generator=generator).double()
    weights[torch.randint(size, (), generator=generator)] = 1.0
    total = int(weights.sum())
    # Whole weights: the middle of each unit of weight belongs to one state, and there is no doubt about it.
    target = torch.arange(total, dtype=torch.float64) + 0.5
    expected = torch.repeat_interleave(torch.arange(size), weights.long())
    with pytest.MonkeyPatch.context() as patch:
        assert draw_at(patch, weights, (target / total).tolist()) == expected.tolist()


@pytest.mark.parametrize(
    "weights",
    [
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 0.1],
        [0.7, 0.0, 0.0],
        [1e-300, 0.0],
        [5e-324, 0.0],
        [0.1] * 10 + [0.0],
        [0.0, 1e300, 0.0],
    ],
)
def test_weight_0_never_comes(weights: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.tensor(weights, dtype=torch.float64)
    drawn = draw_at(monkeypatch, table, [0.0, 2.0**-53, 0.3, 0.5, LAST])
    assert all(weights[state] > 0 for state in drawn)


def test_boundaries_belong_to_the_state_below(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64)
    assert draw_at(monkeypatch, weights, [0.0, 0.25, 0.5, LAST]) == [0, 0, 1, 2]
    just_above = [0.25 + 2.0**-54, 0.5 + 2.0**-53]
    assert draw_at(monkeypatch, weights, just_above) == [1, 2]


def test_tails_far_below_the_rounding_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """States of probability 1e-12 are drawn for exactly their interval of u, though float32 rounds it to 0."""
    weights = torch.tensor([1e-12, 1.0, 1e-12], dtype=torch.float64)
    total = 1 + 2e-12
    assert draw_at(monkeypatch, weights, [0.9e-12 / total, 1.1e-12 / total]) == [0, 1]
    assert draw_at(monkeypatch, weights, [1 - 1.1e-12, 1 - 0.9e-12]) == [1, 2]


def test_draws_have_the_law_of_the_weights() -> None:
    """Chi-square, seed 0, level ``laws.LEVEL``; weights need not sum to 1."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(5, 7, dtype=torch.float64, generator=generator) ** 3 * torch.tensor(
        [[1e-9], [1], [5], [0.1], [1e9]]
    )
    drawn = _draw.categorical(weights.expand(20_000, 5, 7), generator)
    assert drawn.shape == (20_000, 5)
    assert_drawn_from(count(drawn, 7), weights / weights.sum(-1, keepdim=True))


def test_one_table_serves_many_draws() -> None:
    weights = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    rows = torch.tensor([2, 0, 0, 1]).repeat(5000)
    drawn = _draw.from_cdf(_draw.cumulative(weights), rows, torch.Generator().manual_seed(1))
    assert_drawn_from(count(drawn.reshape(5000, 4), 2), weights[[2, 0, 0, 1]])


def test_the_same_generator_gives_the_same_draw() -> None:
    weights = torch.rand(100, 6, generator=torch.Generator().manual_seed(0))
    one, again, other = (_draw.categorical(weights, torch.Generator().manual_seed(s)) for s in (5, 5, 6))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_uniform_numbers_are_float64() -> None:
    """53 random bits, not 24 with zeros behind them: tails need them."""
    u = _draw.uniforms((10_000,), torch.device("cpu"), torch.Generator().manual_seed(0))
    assert u.dtype == torch.float64
    assert bool(((u >= 0) & (u < 1)).all())
    assert bool((u * 2**24 % 1 != 0).all())
    assert_drawn_from(count((u * 16).long(), 16), torch.full((16,), 1 / 16, dtype=torch.float64))


def test_no_rows_no_draws() -> None:
    assert _draw.categorical(torch.zeros(0, 3, 4), None).shape == (0, 3)
