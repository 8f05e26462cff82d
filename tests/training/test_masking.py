"""Random patterns of given sites: every pattern comes, nothing missing is ever given, ranks agree."""

import dataclasses
from pathlib import Path

import pytest
import torch

from tauleap import Observed
from tauleap._draw import PartOfBatch
from tauleap.objective import CompleteElbo, Loss, LossBatch
from tauleap.testing.laws import LEVEL
from tauleap.training import RandomMasks, Run
from tauleap.training.engine import Engine
from tauleap.training.recipe import Batch


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (1, 4, 4), (3, 5), (2, 1, 1, 3)])
def test_some_free_site_is_left_and_no_closed_one_is_given(shape: tuple[int, ...]) -> None:
    x = torch.zeros(500, *shape, dtype=torch.int64)
    closed = torch.rand(x.shape, generator=seeded(1)) < 0.3
    masks = RandomMasks().draw(x, closed=closed, generator=seeded())
    assert not bool((masks & closed).any())
    has_free = (~closed).flatten(1).any(1)
    assert torch.equal((~masks & ~closed).flatten(1).any(1), has_free)


def test_scattered_sites_are_uniform_in_their_number_and_then_in_their_places() -> None:
    """k of 0, 1, 2 with 1/3 each, and each of the sets of k as likely: a chi-square test over the 7 patterns."""
    from scipy import stats

    n = 20_000
    masks = RandomMasks(p_unconditional=0.0, spans=0.0).draw(torch.zeros(n, 3, dtype=torch.int64), generator=seeded())
    counts = torch.bincount((masks * torch.tensor([4, 2, 1])).sum(1), minlength=8)
    assert counts[7] == 0
    expected = torch.tensor([3.0, 1, 1, 1, 1, 1, 1], dtype=torch.float64) * n / 9
    assert stats.chisquare(counts[:7].numpy(), expected.numpy()).pvalue > LEVEL


def test_how_often_nothing_is_given() -> None:
    n, share = 20_000, 0.4
    masks = RandomMasks(p_unconditional=share, spans=0.0).draw(
        torch.zeros(n, 100, dtype=torch.int64), generator=seeded()
    )
    nothing = (~masks.any(1)).double().mean().item()
    expected = share + (1 - share) / 100
    assert abs(nothing - expected) < 5 * (expected * (1 - expected) / n) ** 0.5


def test_spans_are_intervals_or_their_complements_and_boxes_are_boxes() -> None:
    """All but those that would have left nothing to learn, which are scattered: 1 in 40 or so, by its length."""
    masks = RandomMasks(p_unconditional=0.0, spans=1.0).draw(
        torch.zeros(4000, 40, dtype=torch.int64), generator=seeded()
    )
    assert ((masks[:, 1:] != masks[:, :-1]).sum(1) <= 2).double().mean() > 0.97
    prefix = masks[:, 0] & ~masks[:, -1]
    suffix = ~masks[:, 0] & masks[:, -1]
    assert 0.2 < prefix.double().mean() < 0.35
    assert 0.2 < suffix.double().mean() < 0.35
    boxes = RandomMasks(p_unconditional=0.0, spans=1.0).draw(
        torch.zeros(1000, 3, 40, 40, dtype=torch.int64), generator=seeded()
    )
    alike = (boxes[:, :1] == boxes).flatten(1).all(1)
    assert alike.double().mean() > 0.95
    inside, outside = boxes[alike, 0], ~boxes[alike, 0]

    def is_box(mask: torch.Tensor) -> torch.Tensor:
        rows, columns = mask.any(2), mask.any(1)
        filled = (rows[:, :, None] & columns[:, None]) == mask
        whole = [(each[:, 1:] != each[:, :-1]).sum(1) <= 2 for each in (rows, columns)]
        return filled.flatten(1).all(1) & whole[0] & whole[1]

    assert bool((is_box(inside) | is_box(outside)).all())
    assert is_box(inside).double().mean() > 0.3
    assert is_box(outside).double().mean() > 0.3


def test_parts_of_a_batch_draw_what_the_whole_draws() -> None:
    x = torch.zeros(12, 5, dtype=torch.int64)
    whole = RandomMasks().draw(x, generator=seeded(3))
    parts = [RandomMasks().draw(x[:4], generator=PartOfBatch(part, 3).manual_seed(3)) for part in range(3)]
    assert torch.equal(torch.cat(parts), whole)


def test_what_is_not_a_probability() -> None:
    with pytest.raises(ValueError, match="p_unconditional must be a probability"):
        RandomMasks(p_unconditional=1.5)


class Recorded(CompleteElbo):
    """Keeps the draws that it evaluates."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[LossBatch] = []

    def evaluate(self, draw: LossBatch) -> Loss:
        self.draws.append(draw)
        return super().evaluate(draw)


@pytest.mark.parametrize(
    "masking", [None, RandomMasks(), RandomMasks(p_unconditional=1.0)], ids=["none", "random", "unconditional"]
)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_observed_values_of_prepare_reach_the_network(recipe, tmp_path: Path, masking, accumulate: int) -> None:
    """Values that differ from the rows are kept, and what prepare observes stays observed beside the random masks."""

    def prepare(batch: Batch, generator: torch.Generator) -> Batch:
        mask = torch.zeros_like(batch.x0, dtype=torch.bool)
        mask[:, 1] = True
        return dataclasses.replace(batch, observed=Observed(mask, (batch.x0 + 1) % 5))

    objective = Recorded()
    made = dataclasses.replace(recipe(), prepare=prepare, masking=masking, objective=objective)
    engine = Engine(
        Run(out=tmp_path, device="cpu").launch("32-true"),
        made,
        made.model(),
        made.data()[0],
        accumulate=accumulate,
    )
    size = made.settings.batch_size // accumulate
    beside = torch.zeros((), dtype=torch.int64)
    for n in range(4):
        engine.backward(n)
        for part, draw in enumerate(objective.draws[-accumulate:]):
            rows = engine.data.rows(engine._order.take(n * made.settings.batch_size + part * size, size))
            assert draw.observed is not None
            assert bool(draw.observed.mask[:, 1].all())
            assert torch.equal(draw.x_t[:, 1], (rows[:, 1] + 1) % 5)
            assert torch.equal(draw.x0[:, [0, 2]], rows[:, [0, 2]])
            assert not bool(draw.scored[:, 1].any())
            beside += draw.observed.mask[:, [0, 2]].sum()
    assert bool(beside > 0) == (masking == RandomMasks())
