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
    assert (effective < ROWS) == several
    fixed = _expected({site: w for site, w in sets.items() if int((w > 0).sum()) == 1})
    assert math.isclose(log_probability, math.log(float(law.sum() / fixed.sum())), abs_tol=0.03 if several else 1e-9)


def test_the_effective_size_is_that_of_the_weights() -> None:
    """Of a first site with two states, of which one makes the second condition a hundred times as likely."""
    process = Absorbing(3, LogLinear())
    pmf = torch.zeros(3, 3, dtype=torch.float64)
    pmf[:2, :2] = torch.tensor([[0.5, 0.0], [0.495, 0.005]])
    pmf[0, 0], pmf[0, 1] = 0.0, 0.5
    reverse = ReverseProcess(process, ExactDenoiser(pmf / pmf.sum(), process))
    both = torch.tensor([1.0, 1.0, 0.0])
    drawn = draw_conditions(
        reverse, (4000, 2), {0: both, 1: torch.tensor([1e-9, 1.0, 0.0])}, generator=torch.Generator().manual_seed(0)
    )
    # Half of the rows have weight 1, half 0.01.
    assert drawn.effective_size / 4000 == pytest.approx((0.505) ** 2 / (0.5 + 0.5e-4), rel=0.05)


def test_conditions_that_cannot_be_met() -> None:
    reverse = _reverse()
    with pytest.raises(ValueError, match="site 1 has no allowed state"):
        draw_conditions(reverse, (5, 3), {1: _set(0, 0, 0)})
    process = RankOne(torch.full((3,), 1 / 3), LogLinear())
    other = ReverseProcess(process, ExactDenoiser(torch.full((3, 3), 1 / 9), process))
    with pytest.raises(ValueError, match="need absorbing noise, and the model has RankOne: give one value"):
        draw_conditions(other, (5, 2), {0: torch.tensor([1.0, 1.0, 0.0])})
    assert draw_conditions(other, (5, 2), {0: torch.tensor([0.0, 1.0, 0.0])}).observed.values[:, 0].tolist() == [1] * 5
