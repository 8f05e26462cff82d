"""Kernels and rates come in float64 unless a dtype is given."""

import pytest
import torch

from tauleap import ReverseProcess
from tauleap.denoise import ExactDenoiser
from tauleap.noise import BirthDeath, Constant, ForwardProcess, Gaussian, LogLinear, RankOne


@pytest.mark.parametrize(
    ("process", "t", "smallest"),
    [
        (BirthDeath(64, Constant(1.0)), 0.1, -346.27),
        (Gaussian(256, Constant(1.0), 512.0, 6.0), 0.001, -205.35),
        (RankOne(torch.tensor([1 - 1e-80, 1e-80], dtype=torch.float64), LogLinear()), 0.5, -184.90),
    ],
    ids=["birth/death", "gaussian", "rank one"],
)
def test_small_entries_are_there_without_a_dtype(process: ForwardProcess, t: float, smallest: float) -> None:
    """float32 has no number for them: the log of the kernel would be -inf."""
    first = torch.tensor([[0]])
    last = torch.tensor([[process.num_states - 1]])
    row, column = process.kernel_from(first, t).log()[0, 0], process.kernel_into(last, t).log()[0, 0]
    assert bool(row.isfinite().all())
    assert bool(column.isfinite().all())
    assert row[-1].item() == pytest.approx(smallest, abs=0.01)
    assert column[0].item() == row[-1].item()
    assert process.kernel_from(first, t, dtype=torch.float32)[0, 0, -1] == 0


def test_small_rates_are_there_without_a_dtype() -> None:
    process = Gaussian(64, Constant(1.0), 16.0, 3.0)  # exp(-427) from end to end
    first, last = torch.tensor([[0]]), torch.tensor([[63]])
    expected = process.generator()[0, 63].item()
    assert 0 < expected < 1e-180
    assert process.rates_from(first, 0.5)[0, 0, 63].item() == expected
    assert process.rates_into(last, 0.5)[0, 0, 0].item() == expected
    rare = RankOne(torch.tensor([1 - 1e-80, 1e-80], dtype=torch.float64), Constant(1.0))
    assert rare.rates_from(first, 0.5)[0, 0, 1].item() == pytest.approx(1e-80, rel=1e-12)
    assert Constant(1e-60).rate(0.5).item() == 1e-60
    slow = RankOne(torch.tensor([0.5, 0.5]), Constant(1e-60))
    assert slow.exit_rate(first, 0.5).item() == pytest.approx(5e-61, rel=1e-12)
    reverse = ReverseProcess(rare, ExactDenoiser(torch.tensor([0.5, 0.5]), rare))
    known = reverse.conditional_rates(first, first, 0.5)
    q, into = rare.kernel_from(first, 0.5)[0, 0], rare.rates_into(first, 0.5)[0, 0, 1]
    assert known[0, 0, 1].item() == pytest.approx((into * q[1] / q[0]).item(), rel=1e-12)
