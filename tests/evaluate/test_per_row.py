"""Numbers per song, against values worked out by hand."""

import math

import pytest
import torch

from tauleap.evaluate import Completions, hellinger_of_laws, row_hellinger, row_outliers


def test_worked_out_by_hand() -> None:
    samples = torch.tensor([[0, 0, 1, 2], [3, 3, 3, 3]])
    truth = torch.tensor([[0, 1, 1, 1], [3, 3, 3, 3]])
    overlap = math.sqrt(1 / 2 * 1 / 4) + math.sqrt(1 / 4 * 3 / 4)
    assert row_hellinger(samples, truth).tolist() == pytest.approx([math.sqrt(1 - overlap), 0.0], abs=1e-12)
    assert row_outliers(samples, truth).tolist() == [0.25, 0.0]
    assert row_outliers(truth, samples).tolist() == [0.0, 0.0]
    apart = torch.tensor([[5, 6, 7, 8]])
    assert row_hellinger(apart, samples[:1]).item() == pytest.approx(1.0)
    assert row_outliers(apart, samples[:1]).item() == 1.0


def test_each_row_has_its_own_histogram() -> None:
    draw = torch.Generator().manual_seed(0)
    samples, truth = (torch.randint(6, (8, 3, 5), generator=draw) for _ in range(2))

    def law(row: torch.Tensor) -> torch.Tensor:
        return torch.bincount(row.flatten(), minlength=6) / 15

    for number, value in enumerate(row_hellinger(samples, truth).tolist()):
        assert value == pytest.approx(hellinger_of_laws(law(samples[number]), law(truth[number])), abs=1e-6)
    shuffled = samples.flatten(1)[:, torch.randperm(15, generator=draw)].reshape(samples.shape)
    assert torch.allclose(row_hellinger(samples, truth), row_hellinger(shuffled, truth))


def test_several_runs() -> None:
    values = torch.tensor([[0.1, 0.3, 0.5], [0.3, 0.5, 0.7]], dtype=torch.float64)
    done = Completions.of(values)
    assert done.mean.value == pytest.approx(0.4)
    assert done.mean.stderr == pytest.approx(0.2 / math.sqrt(3))
    assert done.spread == pytest.approx(math.sqrt(0.02))
    assert (done.runs, done.mean.n) == (2, 3)
    assert Completions.of(values[:1]).spread == math.inf


@pytest.mark.parametrize(
    ("samples", "reference", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64), "samples must be int64 rows"),
        (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64), "reference must be int64 rows"),
        (
            torch.zeros(2, 3, dtype=torch.int64),
            torch.zeros(1, 3, dtype=torch.int64),
            "same number of rows, got 2 and 1",
        ),
        (torch.full((1, 3), -1), torch.zeros(1, 3, dtype=torch.int64), "samples"),
    ],
)
def test_invalid_input_raises(samples: torch.Tensor, reference: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        row_outliers(samples, reference)
