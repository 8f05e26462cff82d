"""Steering: the law of the selected particle by enumeration, and the target that more particles approach."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import tauleap as tl
from tauleap.evaluate.pushforward import prior, pushforward_grid
from tauleap.observed import Observed
from tauleap.sampling import Ancestral, geometric_grid, sample
from tauleap.sampling.steering import Particles, systematic
from tauleap.testing.cases import correlated, counts, total_variation
from tauleap.testing.laws import assert_drawn_from

WEIGHTS = torch.tensor([0.0, 1.5, -0.5, 2.0], dtype=torch.float64)
"""f(x0) of the four states of two binary sites."""


def potential(x0: Tensor) -> Tensor:
    return WEIGHTS[2 * x0[:, 0] + x0[:, 1]]


def law_of_selected(law: Tensor, log_weights: Tensor, each: int) -> Tensor:
    """Return the distribution of one of ``each`` independent draws, selected by weight, over all sets of draws."""
    out, weights = torch.zeros_like(law), log_weights.exp()
    for drawn in itertools.product(range(len(law)), repeat=each):
        index = torch.tensor(drawn)
        own = weights[index]
        if float(own.sum()) > 0:
            out.index_add_(0, index, law[index].prod() * own / own.sum())
    return out


def target(law: Tensor, strength: float = 1.0) -> Tensor:
    weighted = law * (strength * WEIGHTS).exp()
    return weighted / weighted.sum()


def case() -> tuple[tl.ReverseProcess, Tensor, list[float]]:
    """Return the process, the law of the plain samples by enumeration, and their grid of one step."""
    reverse, _ = correlated("uniform", 2, num_states=2)
    grid = [1.0, 0.0]
    return reverse, pushforward_grid(Ancestral(), reverse, prior(reverse, 2), grid).reshape(-1), grid


def test_the_total_variation_to_the_target_falls_with_the_particles() -> None:
    _, law, _ = case()
    distances = [total_variation(law_of_selected(law, WEIGHTS, each), target(law)) for each in (1, 2, 3, 5)]
    assert distances[0] == pytest.approx(total_variation(law, target(law)))
    assert all(b < 0.95 * a for a, b in itertools.pairwise(distances))
    assert distances[-1] < distances[0] / 2.5


@pytest.mark.parametrize("each", [1, 3])
def test_samples_have_the_law_of_the_selected_particle(each: int) -> None:
    reverse, law, grid = case()
    found = sample(
        reverse,
        Ancestral(),
        (6000, 2),
        grid=grid,
        final="none",
        potential=potential,
        particles=each,
        generator=torch.Generator().manual_seed(0),
    )
    assert found.x0.shape == (6000, 2)
    assert_drawn_from(counts(found.x0, law.reshape(2, 2)), law_of_selected(law, WEIGHTS, each))
    assert found.info.evaluations == each
    if each == 1:
        assert found.info.effective_size.tolist() == [1.0]


@pytest.mark.parametrize(("name", "strength", "seed"), [("uniform", 1.0, 1), ("absorbing", -1.0, 4)])
def test_several_steps_with_resampling_reach_the_target(name: str, strength: float, seed: int) -> None:
    reverse, _ = correlated(name, 2, num_states=2, seed=seed)
    grid = [*geometric_grid(5, end=0.02).tolist(), 0.0]
    law = pushforward_grid(Ancestral(), reverse, prior(reverse, 2), grid)[:2, :2].reshape(-1)
    distances = []
    for each in (1, 4, 24):
        found = sample(
            reverse,
            Ancestral(),
            (1500, 2),
            grid=grid,
            final="none",
            potential=lambda x0: strength * potential(x0),
            particles=each,
            batch_size=500,
            generator=torch.Generator().manual_seed(1),
        )
        drawn = counts(found.x0, torch.zeros(2, 2))
        distances.append(total_variation(drawn / 1500, target(law, strength)))
        assert len(found.info.effective_size) == 6
        assert bool((found.info.effective_size <= each + 1e-9).all())
    assert distances[0] > 0.15
    assert distances[1] < 0.6 * distances[0]
    assert distances[2] < 0.05  # 1,500 samples of the target itself have about 0.02


def test_hard_constraints_hold_for_every_sample() -> None:
    reverse, _, _ = case()

    def equal(x0: Tensor) -> Tensor:
        return torch.where(x0[:, 0] == x0[:, 1], 0.0, -math.inf)

    found = sample(
        reverse,
        Ancestral(),
        (200, 2),
        grid=[1.0, 0.5, 0.1, 0.0],
        final="none",
        potential=equal,
        particles=64,
        generator=torch.Generator().manual_seed(0),
    )
    assert bool((found.x0[:, 0] == found.x0[:, 1]).all())
    assert {tuple(row) for row in found.x0.tolist()} == {(0, 0), (1, 1)}


def test_weights_are_those_of_the_target_at_every_step() -> None:
    """A particle whose prediction is forbidden keeps its potential; in the end its weight is exp(f(x0))."""
    values = iter([[0.5, -math.inf], [1.0, 0.3], [2.0, 0.1]])
    particles = Particles(lambda x: torch.tensor(next(values)).double(), 1, 2, torch.device("cpu"), None)
    x = torch.arange(2)[:, None]
    particles.step(x, x)
    assert particles.log_weights.tolist() == [[0.5, 0.0]]
    weights = torch.tensor([0.5, 0.0]).double().softmax(0)
    assert float(particles.sizes[0]) == pytest.approx(float(1 / weights.square().sum()))
    particles.step(x, x)
    torch.testing.assert_close(particles.log_weights, torch.tensor([[1.0, 0.3]]).double())
    _, sizes = particles.select(x)
    weights = torch.tensor([2.0, 0.1]).double().softmax(0)
    assert len(sizes) == 3
    assert float(sizes[-1]) == pytest.approx(float(1 / weights.square().sum()))


def test_systematic_resampling_has_the_right_means() -> None:
    weights = torch.tensor([0.1, 0.6, 0.0, 0.3]).double().expand(5000, 4)
    chosen = systematic(weights, torch.Generator().manual_seed(0))
    number = torch.nn.functional.one_hot(chosen, 4).sum(1).double()
    torch.testing.assert_close(number.mean(0), 4 * weights[0], atol=0.03, rtol=0)
    assert bool(((number - 4 * weights).abs() < 1).all())


def test_observed_sites_and_conditions_belong_to_the_sample() -> None:
    reverse, _, grid = case()
    observed = Observed(torch.tensor([True, False]), torch.tensor([[0, 0], [1, 0], [0, 0], [1, 0]]))
    found = sample(
        reverse, Ancestral(), (4, 2), grid=grid, final="none", observed=observed, potential=potential, particles=3
    )
    assert found.x0[:, 0].tolist() == [0, 1, 0, 1]
    plain = sample(reverse, Ancestral(), (4, 2), grid=grid)
    assert bool(plain.info.effective_size.isnan().all())


def test_blocks_are_those_of_one_call() -> None:
    reverse, _, grid = case()
    options: dict[str, Any] = {"grid": grid, "final": "none", "potential": potential, "particles": 3, "batch_size": 2}
    whole = sample(reverse, Ancestral(), (5, 2), generator=torch.Generator().manual_seed(0), **options)
    parts = [
        sample(reverse, Ancestral(), (5, 2), generator=torch.Generator().manual_seed(0), blocks=[block], **options)
        for block in range(3)
    ]
    assert torch.equal(tl.sampling.Samples.join(parts).x0, whole.x0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"potential": 3}, TypeError, "potential must be a function of x0 with one number per row, got int"),
        ({"particles": 0}, ValueError, "particles must be a whole number >= 1"),
        ({"potential": None}, ValueError, "particles need a potential: write potential=f"),
        ({"potential": lambda x: x.double()}, ValueError, r"one floating-point number per row, \(6,\), got tor"),
        ({"potential": lambda x: x[:, 0]}, ValueError, r"one floating-point number per row, \(6,\), got torch.int64"),
        ({"potential": lambda x: 1.0}, ValueError, "one floating-point number per row"),
        ({"potential": lambda x: x[:, 0] * math.nan}, ValueError, "finite numbers or -inf, got NaN or inf"),
        ({"potential": lambda x: x[:, 0] + math.inf}, ValueError, "finite numbers or -inf, got NaN or inf"),
        ({"potential": lambda x: x[:, 0] - math.inf}, ValueError, "-inf for all 3 particles of 2 of 2 samples: write"),
        ({"trace": [1.0]}, ValueError, "trace is of single samples: leave it out with a potential"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_arguments(change: dict[str, Any], error: type[Exception], message: str) -> None:
    reverse, _, grid = case()
    options = {"grid": grid, "final": "none", "potential": potential, "particles": 3} | change
    with pytest.raises(error, match=message):
        sample(reverse, Ancestral(), (2, 2), **options)
