"""Data in memory, and the digits in the package."""

import pytest
import torch

from tauleap.data import Dataset, digits


def test_a_split_has_every_row_once() -> None:
    data = Dataset(torch.arange(50)[:, None], 50, condition=torch.arange(50) * 2)
    train, test = data.split(20, seed=1)
    assert sorted([*train.x.flatten().tolist(), *test.x.flatten().tolist()]) == list(range(50))
    assert train.condition is not None
    assert torch.equal(train.condition, 2 * train.x.flatten())
    again, _ = data.split(20, seed=1)
    assert torch.equal(again.x, train.x)
    other, _ = data.split(20, seed=2)
    assert not torch.equal(other.x, train.x)


def test_selected_rows_keep_conditions_and_masks() -> None:
    x, missing = torch.tensor([[0, 1], [2, 0], [1, 1]]), torch.tensor([[0, 1], [0, 0], [1, 0]]).bool()
    data = Dataset(x, 3, condition=torch.tensor([5, 6, 7]), missing=missing)
    index = torch.tensor([2, 0])
    chosen, batch = data.select(index), data.batch(index)
    assert torch.equal(chosen.rows(torch.arange(2)), x[index])
    for found in (chosen, batch):
        assert found.condition is not None
        assert found.missing is not None
        assert found.condition.tolist() == [7, 5]
        assert torch.equal(found.missing, missing[index])
    assert torch.equal(batch.x, x[index])
    assert torch.equal(data.known(), ~missing)
    assert bool(Dataset(x, 3).known().all())
    assert Dataset(x, 3).batch(index)[1:] == (None, None)


def test_different_data_has_different_descriptions() -> None:
    x = torch.tensor([[0, 1], [2, 1]])
    data = Dataset(x, 3)
    assert data.describe() == Dataset(x.clone(), 3).describe()
    others = [
        Dataset(x.flip(0), 3),
        Dataset(x, 4),
        Dataset(x.to(torch.uint8), 3),
        Dataset(x[:, None], 3),
        Dataset(x, 3, condition=torch.zeros(2)),
    ]
    assert all(other.describe() != data.describe() for other in others)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(3, 2), TypeError, "whole numbers"),
        (torch.zeros(3, dtype=torch.int64), ValueError, "one or more rows"),
        (torch.zeros(0, 2, dtype=torch.int64), ValueError, "one or more rows"),
        (torch.tensor([[0, 5]]), ValueError, "states 0..4, got values from 0 to 5"),
        (torch.tensor([[-1, 2]]), ValueError, "states 0..4, got values from -1 to 2"),
    ],
)
def test_invalid_rows_raise(x: torch.Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset(x, 5)


def test_wrong_sizes() -> None:
    x = torch.zeros(3, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match="one entry per row, 3, got 2"):
        Dataset(x, 2, condition=torch.zeros(2))
    with pytest.raises(ValueError, match="test_rows must be less than the 3 rows"):
        Dataset(x, 2).split(3)


def test_digits() -> None:
    data = digits()
    assert (len(data), data.shape, data.num_states) == (1797, (1, 8, 8), 17)
    assert data.condition is not None
    assert torch.bincount(data.condition).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # The first is a zero: ink around, none in the middle.
    assert data.x[0, 0].tolist()[3] == [0, 4, 12, 0, 0, 8, 8, 0]


def test_missing_values_and_sizes_follow_their_rows() -> None:
    x = torch.arange(20)[:, None] % torch.tensor([2, 5])
    data = Dataset(x, 5, missing=x == 1, sizes=torch.tensor([2, 5]))
    assert data.describe() != Dataset(x, 5, sizes=torch.tensor([2, 5])).describe()
    assert data.describe() != Dataset(x, 5, missing=x == 1).describe()
    assert data.describe()["missing"] == int((x == 1).sum())
    for part in data.split(5):
        assert part.missing is not None
        assert torch.equal(part.missing, part.x == 1)
        assert part.sizes is data.sizes


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"missing": torch.zeros(3, 2)}, TypeError, "bool"),
        ({"missing": torch.zeros(2, dtype=torch.bool)}, ValueError, r"the shape of x, \(3, 2\), got \(2,\)"),
        ({"sizes": torch.tensor([2.0, 2.0])}, TypeError, "int64"),
        ({"sizes": torch.tensor([2])}, ValueError, r"shape of a row, \(2,\), got \(1,\)"),
        ({"sizes": torch.tensor([2, 9])}, ValueError, "sizes must lie in 1..4"),
        ({"sizes": torch.tensor([4, 2])}, ValueError, r"row 1 has the state 3 at site \(1,\), which has 2 states"),
    ],
)
def test_invalid_missing_values_and_sizes_raise(more: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset(torch.tensor([[0, 1], [2, 3], [1, 1]]), 4, **more)
