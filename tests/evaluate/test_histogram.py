"""Hellinger distances against values worked out by hand, and their errors against many repetitions."""

import math

import pytest
import torch

from tauleap.evaluate import hellinger, hellinger_of_laws
from tauleap.testing.cases import draws

LAW = torch.tensor([[0.4, 0.1, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.1]], dtype=torch.float64)


def test_worked_out_by_hand() -> None:
    samples = torch.tensor([[0, 0], [0, 0], [2, 2], [1, 0]])
    expected = math.sqrt(1 - math.sqrt(0.5 * 0.4) - math.sqrt(0.25 * 0.1) - math.sqrt(0.25 * 0.1))
    assert hellinger(samples, LAW).value == pytest.approx(expected, rel=1e-12)
    assert hellinger(samples, LAW).n == 4


def test_against_other_samples() -> None:
    one, other = torch.tensor([[0, 1], [1, 1]]), torch.tensor([[0, 1], [0, 0], [0, 1], [1, 1]])
    law = torch.tensor([[0.25, 0.5], [0.0, 0.25]], dtype=torch.float64)
    assert hellinger(one, other).value == pytest.approx(hellinger(one, law).value, rel=1e-12)
    assert hellinger(one, one).value == 0.0
    assert hellinger(one, torch.tensor([[0, 0]])).value == 1.0


def test_laws() -> None:
    assert hellinger_of_laws(LAW, LAW) == 0.0
    close = LAW.clone()
    close[0, 0], close[0, 1] = 0.4 + 1e-9, 0.1 - 1e-9
    # Close by, the distance is sqrt(sum (dp)^2 / (8 p)).
    assert hellinger_of_laws(close, LAW) == pytest.approx(1e-9 * math.sqrt((1 / 0.4 + 1 / 0.1) / 8), rel=1e-5)


def test_the_standard_error_is_that_of_repetitions() -> None:
    """500 repetitions: the spread of the values within 4 standard errors (12.6 %) of the reported mean error."""
    generator = torch.Generator().manual_seed(0)
    other = torch.tensor([[0.1, 0.2, 0.0], [0.1, 0.3, 0.1], [0.0, 0.1, 0.1]], dtype=torch.float64)
    found = [hellinger(draws(LAW, 400, generator), other) for _ in range(500)]
    spread = torch.tensor([each.value for each in found]).std().item()
    stderr = torch.tensor([each.stderr for each in found]).mean().item()
    assert stderr == pytest.approx(spread, rel=4 / math.sqrt(2 * 500))


@pytest.mark.parametrize(
    ("samples", "reference", "message"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), torch.full((2, 3), 1 / 6), r"one axis per site"),
        (torch.zeros(3, 2, dtype=torch.int64), torch.full((2,), 0.5), "2 sites and the reference has 1"),
        (torch.full((3, 2), 5), torch.full((2, 2), 0.25), "must hold states 0..1"),
        (torch.zeros(0, 2, dtype=torch.int64), torch.full((2, 2), 0.25), "at least one row"),
        (torch.zeros(3, 2, dtype=torch.int64), torch.full((2, 2), 0.5), "sum to 1"),
    ],
)
def test_bad_input(samples: torch.Tensor, reference: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hellinger(samples, reference)
