"""What becomes of batches: mirrored pictures, with what is given and missing in its place, and forgotten labels."""

import pytest
import torch
from scipy import stats
from torch import Tensor

from tauleap._draw import PartOfBatch
from tauleap.observed import Observed
from tauleap.testing.laws import LEVEL
from tauleap.training import Batch, LabelDropout, flip_left_right


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(n: int, *shape: int) -> torch.Tensor:
    return torch.randint(256, (n, *shape), generator=seeded(99))


def mirrored(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Which rows were mirrored; every other one must be as it was."""
    turned = (after == before.flip(-1)).flatten(1).all(1)
    kept = (after == before).flatten(1).all(1)
    assert bool((turned ^ kept).all())
    return turned


def test_a_row_is_kept_or_mirrored_as_a_whole_with_probability_one_half() -> None:
    n = 20_000
    x = pictures(n, 1, 2, 16)
    turned = mirrored(x, flip_left_right(Batch(x), seeded()).x0)
    assert stats.binomtest(int(turned.sum()), n).pvalue > LEVEL
    # Neighbours are independent: the four pairs are as likely as each other.
    pairs = torch.bincount(2 * turned[::2].long() + turned[1::2].long(), minlength=4)
    assert stats.chisquare(pairs.numpy()).pvalue > LEVEL


def test_the_axis_is_the_width() -> None:
    x = pictures(50, 3, 4, 6)
    out = flip_left_right(Batch(x), seeded()).x0
    turned = mirrored(x, out)
    assert 0 < int(turned.sum()) < 50
    row = int(turned.nonzero()[0])
    assert out[row, 2, 1].tolist() == x[row, 2, 1].tolist()[::-1]
    assert torch.equal(out[row].sum(-1), x[row].sum(-1))


def test_what_is_given_and_missing_follows_its_picture() -> None:
    x, other = pictures(64, 3, 4, 5), pictures(64, 3, 4, 5) + 256
    given, missing = (torch.rand(x.shape, generator=seeded(seed)) < 0.4 for seed in (1, 2))
    labels = torch.arange(64)
    out = flip_left_right(Batch(x, Observed(given, other), missing, labels), seeded())
    turned = mirrored(x, out.x0)
    assert out.observed is not None
    assert out.missing is not None
    for before, after in ((given, out.observed.mask), (other, out.observed.values), (missing, out.missing)):
        assert torch.equal(after[turned], before[turned].flip(-1))
        assert torch.equal(after[~turned], before[~turned])
    assert torch.equal(out.condition, labels)  # pyright: ignore[reportArgumentType]


def test_one_pattern_for_all_rows_becomes_one_for_each() -> None:
    x = pictures(32, 1, 2, 4)
    left = (torch.arange(4) < 2).expand(1, 2, 4)
    out = flip_left_right(Batch(x, Observed(left, x), left), seeded())
    turned = mirrored(x, out.x0)
    assert out.observed is not None
    assert torch.equal(out.observed.values, out.x0)
    for mask in (out.observed.mask, out.missing):
        assert mask is not None
        assert torch.equal(mask[:, 0, 0, 0], ~turned)
        assert torch.equal(mask[:, 0, 0, 3], turned)


def test_draws_come_from_the_generator_alone() -> None:
    x = pictures(64, 1, 2, 4)
    before = torch.get_rng_state()
    first, again, another = (flip_left_right(Batch(x), seeded(seed)).x0 for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, another)
    assert torch.equal(torch.get_rng_state(), before)
    # Two processes with half of the batch each do what one does.
    halves = [flip_left_right(Batch(half), PartOfBatch(i, 2).manual_seed(0)).x0 for i, half in enumerate(x.chunk(2))]
    assert torch.equal(torch.cat(halves), first)


@pytest.mark.parametrize("shape", [(8,), (4, 8), (2, 3, 4, 8)])
def test_what_is_no_picture(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"needs images \(batch, channels, height, width\), got rows of shape"):
        flip_left_right(Batch(pictures(3, *shape)), seeded())


def test_labels_are_dropped_with_probability_p() -> None:
    """Of 4,000 labels 1,200 in the mean, with a deviation of 29: five of them either way, a chance of 6e-7."""
    labels = torch.arange(4000) % 10
    batch = Batch(torch.zeros(4000, 2, dtype=torch.int64), condition=labels)
    labelled = LabelDropout(10, p=0.3)(batch, torch.Generator().manual_seed(0)).condition
    assert labelled is not None
    dropped = labelled == 10
    assert abs(int(dropped.sum()) - 1200) < 145
    assert torch.equal(labelled[~dropped], labels[~dropped])
    assert torch.equal(labels, torch.arange(4000) % 10)


def test_rows_without_labels_stay_as_they_are() -> None:
    batch = Batch(torch.zeros(4, 2, dtype=torch.int64))
    assert LabelDropout(10)(batch, torch.Generator()) is batch


@pytest.mark.parametrize("condition", [torch.zeros(4), torch.zeros(3, dtype=torch.int64)])
def test_label_dropout_needs_one_label_per_row(condition: Tensor) -> None:
    with pytest.raises(ValueError, match="one label per row"):
        LabelDropout(10)(Batch(torch.zeros(4, 2, dtype=torch.int64), condition=condition), torch.Generator())


def test_p_is_a_probability() -> None:
    with pytest.raises(ValueError, match="probability"):
        LabelDropout(10, p=1.5)
