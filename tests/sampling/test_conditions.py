"""Sites restricted to sets of states have the conditional law of the model."""

import math

import pytest
import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.noise import Absorbing, LogLinear, RankOne
from tauleap.reverse import ReverseProcess
from tauleap.sampling import FirstHitting, sample
from tauleap.sampling.conditions import draw_conditions
from tauleap.testing.laws import assert_drawn_from

ROWS = 20_000


def _pmf() -> Tensor:
    pmf = torch.zeros(4, 4, 4, dtype=torch.float64)
    pmf[:3, :3, :3] = torch.rand(3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 3
    return pmf / pmf.sum()


def _reverse() -> ReverseProcess:
    process = Absorbing(4, LogLinear())
    return ReverseProcess(process, ExactDenoiser(_pmf(), process))


def _set(*weights: float) -> Tensor:
    return torch.tensor([*weights, 0.0], dtype=torch.float64)


def _rows(sets: dict[int, Tensor], *, batch_size: int | None = None) -> tuple[Tensor, float, float]:
    generator = torch.Generator().manual_seed(0)
    drawn = draw_conditions(_reverse(), (ROWS, 3), sets, batch_size=batch_size, generator=generator)
    x = sample(
        _reverse(),
        FirstHitting(),
        (ROWS, 3),
        grid=[1.0, 0.0],
        final="none",
        observed=drawn.observed,
        generator=generator,
    ).x0
    return x, drawn.effective_size, drawn.log_probability


def _expected(sets: dict[int, Tensor]) -> Tensor:
    law = _pmf()
    for site, weights in sets.items():
        law = law * weights.reshape([-1 if axis == site else 1 for axis in range(3)])
    return law


@pytest.mark.parametrize(
    "sets",
    [
        {0: _set(1, 0, 0)},
        {1: _set(1, 1, 0)},
        {0: _set(0, 1, 0), 2: _set(0, 1, 1)},
        {2: _set(0.25, 0, 1)},
        {0: _set(1, 1, 0), 2: _set(0, 1, 1)},
        {1: _set(0, 0, 1), 0: _set(1, 0.5, 0), 2: _set(0.1, 1, 0)},
    ],
)
def test_rows_have_the_conditional_law(sets: dict[int, Tensor]) -> None:
    x, effective, log_probability = _rows(sets, batch_size=7000)
    law = _expected(sets)
    counts = torch.zeros(4, 4, 4).index_put(tuple(x.T), torch.ones(ROWS), accumulate=True)
    assert_drawn_from(counts.reshape(1, -1), (law / law.sum()).reshape(1, -1))
    several = sum(int((weights > 0).sum()) > 1 for weights in sets.values()) > 1
    assert effective <= ROWS if several else effective == ROWS
    assert math.isclose(log_probability, math.log(float(law.sum())), abs_tol=0.03 if several else 1e-9)


def _unequal() -> tuple[ReverseProcess, dict[int, Tensor]]:
    """A first site of which one state, in a tenth of the rows, makes the second set a hundred times as likely."""
    process = Absorbing(4, LogLinear())
    pmf = torch.zeros(4, 4, dtype=torch.float64)
    pmf[0, 1], pmf[1, 0], pmf[1, 1], pmf[2, 1] = 0.03, 0.2673, 0.0027, 0.7
    return ReverseProcess(process, ExactDenoiser(pmf, process)), {1: _set(0, 1, 1), 0: _set(1, 1, 0)}


def test_the_effective_size_is_that_of_the_weights() -> None:
    reverse, sets = _unequal()
    for given in (sets, dict(reversed(sets.items()))):  # the set of site 0 is the less probable one, and comes first
        drawn = draw_conditions(reverse, (20_000, 2), given, generator=torch.Generator().manual_seed(0))
        of_candidates = (0.1 + 0.9 * 0.01) ** 2 / (0.1 + 0.9 * 0.01**2)
        assert drawn.weighted
        assert drawn.effective_size / 20_000 == pytest.approx(2 * of_candidates, rel=0.05)
        assert drawn.log_probability == pytest.approx(math.log(0.0327), abs=0.05)


def test_few_rows_are_not_biased_towards_the_first_condition() -> None:
    """Single rows, each resampled by itself, have the law of many: without weights, a tenth would have state 0."""
    (reverse, sets), generator = _unequal(), torch.Generator().manual_seed(0)
    drawn = [draw_conditions(reverse, (1, 2), sets, generator=generator) for _ in range(80)]
    counts = torch.cat([each.observed.values[:, 0] for each in drawn]).bincount(minlength=2)
    assert_drawn_from(counts.reshape(1, -1), torch.tensor([[0.03, 0.0027]]) / 0.0327)


def test_conditions_that_cannot_be_met() -> None:
    reverse = _reverse()
    process = Absorbing(3, LogLinear())
    equal = torch.diag(torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64))
    alike = ReverseProcess(process, ExactDenoiser(equal, process))
    for second in ([0.0, 1.0, 0.0], [0.0, 1.0, 1.0]):
        with pytest.raises(ValueError, match="under the model no row can fulfil all conditions at once"):
            draw_conditions(alike, (5, 2), {0: torch.tensor([1.0, 0.0, 0.0]), 1: torch.tensor(second)})
    with pytest.raises(ValueError, match="several ranges need resampling of rows"):
        draw_conditions(reverse, (2, 3), {0: _set(1, 1, 0), 1: _set(1, 0, 1)}, condition=torch.zeros(2))
    with pytest.raises(ValueError, match="site 1 has no allowed state"):
        draw_conditions(reverse, (5, 3), {1: _set(0, 0, 0)})
    process = RankOne(torch.full((3,), 1 / 3), LogLinear())
    other = ReverseProcess(process, ExactDenoiser(torch.full((3, 3), 1 / 9), process))
    with pytest.raises(ValueError, match="need absorbing noise, and the model has RankOne: give one value"):
        draw_conditions(other, (5, 2), {0: torch.tensor([1.0, 1.0, 0.0])})
    assert draw_conditions(other, (5, 2), {0: torch.tensor([0.0, 1.0, 0.0])}).observed.values[:, 0].tolist() == [1] * 5
