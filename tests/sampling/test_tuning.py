"""Tuned steps: the dynamic program against all plans, grids against each other, and the choice that uses them."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tauleap as tl
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_states
from tauleap.evaluate.pushforward import prior, pushforward_grid
from tauleap.noise import Absorbing, Constant, LogLinear, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    FirstHitting,
    Planned,
    TauLeaping,
    TimeTuning,
    TunedNumbers,
    UnmaskingTuning,
    choose_sampling,
    sample,
    tuning_from_config,
    uniform_grid,
)
from tauleap.sampling.tuning.chains import BestChains, fewest_steps
from tauleap.testing.laws import assert_drawn_from, random_law
from tauleap.testing.steps import mean_entropies, relative_entropy

ERRORS = TimeTuning(64, 0.1, (0.0, 0.05, 0.3, 1.0), ((0.2, 0.5, 0.9), (0.1, 0.3), (0.05,)))


def exact_tuning(law: Tensor) -> UnmaskingTuning:
    return UnmaskingTuning(1, None, law.ndim, tuple(range(law.ndim)), tuple(mean_entropies(law)))


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    cuts = itertools.combinations(range(1, total), parts - 1)
    return [tuple(int(n) for n in np.diff([0, *cut, total])) for cut in cuts]


def masked_case(sites: int, seed: int = 5) -> tuple[ReverseProcess, Tensor]:
    process = Absorbing(3, LogLinear())
    law = random_law(process.data_states.expand(sites, -1), seed=seed)
    return ReverseProcess(process, ExactDenoiser(law, process)), law


def error_by_orders(law: Tensor, numbers: tuple[int, ...]) -> float:
    """Return the mean over all orders of KL(data || batches drawn independently), from the definition."""
    states, flat = joint_states(law.shape[0], law.ndim), law.reshape(-1)
    total, orders = 0.0, list(itertools.permutations(range(law.ndim)))
    for order in orders:
        made, filled = torch.ones_like(flat), 0
        for number in numbers:
            known, batch = list(order[:filled]), order[filled : filled + number]
            for site in batch:
                others = [d for d in range(law.ndim) if d not in (*known, site)]
                joint = law.sum(others, keepdim=True) if others else law
                among = joint.sum(site, keepdim=True)
                first = torch.zeros(len(states), dtype=torch.int64)
                index = [states[:, d] if size > 1 else first for d, size in enumerate(joint.shape)]
                top = joint[tuple(index)]
                index[site] = first
                made = made * torch.where(top > 0, top / among[tuple(index)], 0.0)
            filled += number
        total += relative_entropy(flat, made)
    return total / len(orders)


def test_the_predicted_error_is_the_mean_over_orders() -> None:
    _, law = masked_case(4)
    tuning = exact_tuning(law)
    for numbers in ((4,), (2, 2), (1, 3), (3, 1), (1, 2, 1)):
        assert tuning.error_of(numbers) == pytest.approx(error_by_orders(law, numbers), abs=1e-12)
    assert tuning.error_of((1, 1, 1, 1)) == pytest.approx(0.0, abs=1e-12)


def test_the_dynamic_program_finds_the_best_of_all_plans() -> None:
    """Seven binary sites: equal numbers are clearly worse."""
    _, law = masked_case(7, seed=2)
    tuning = exact_tuning(law)
    for steps, equal in ((2, (4, 3)), (3, (3, 2, 2)), (4, (2, 2, 2, 1))):
        best = min(tuning.error_of(numbers) for numbers in compositions(7, steps))
        assert tuning.error(steps) == pytest.approx(best, abs=1e-12)
        assert tuning.error_of(tuning.numbers(steps)) == pytest.approx(best, abs=1e-12)
        assert len(tuning.numbers(steps)) == steps
        assert best < 0.95 * min(tuning.error_of(numbers) for numbers in itertools.permutations(equal))


def test_the_pushforward_stays_within_the_prediction() -> None:
    """The samples forget the order, so that their error is at most the mean over the orders."""
    reverse, law = masked_case(4)
    tuning = exact_tuning(law)
    for steps in (1, 2, 3):
        sampler = Planned(numbers=tuning.numbers(steps))
        made = pushforward_grid(sampler, reverse, prior(reverse, 4), uniform_grid(steps, end=0.0).tolist())
        found = relative_entropy(law, made)
        assert found <= tuning.error(steps) + 1e-12
        if steps == 1:
            assert found == pytest.approx(tuning.error(1), abs=1e-12)


def test_observed_sites_shift_the_start() -> None:
    _, law = masked_case(6)
    tuning = exact_tuning(law)
    for unknown, steps in ((4, 2), (5, 3), (2, 1)):
        expected = min(tuning.error_of(numbers) for numbers in compositions(unknown, steps))
        assert tuning.error(steps, unknown) == pytest.approx(expected, abs=1e-12)
        assert sum(tuning.numbers(steps, unknown)) == unknown
    needed = [tuning.steps(0.02, unknown) for unknown in range(1, 7)]
    assert needed == sorted(needed), "rows with fewer unknown sites need no more steps"


@pytest.mark.parametrize("tol", [0.3, 0.05, 0.01, 1e-9])
def test_the_number_of_steps_is_the_smallest_within_the_tolerance(tol: float) -> None:
    tuning = exact_tuning(masked_case(6)[1])
    steps = tuning.steps(tol)
    assert tuning.error(steps) <= tol
    assert steps == 1 or tuning.error(steps - 1) > tol
    steps = ERRORS.steps(max(tol, 1e-4))
    assert ERRORS.error(steps) <= max(tol, 1e-4) < ERRORS.error(steps - 1)


def test_planned_fills_exactly_these_numbers_in_every_row() -> None:
    """Rows with different numbers of unknown sites each have their own plan."""
    process = Absorbing(3, LogLinear())
    reverse = ReverseProcess(process, tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(3, (6,))))
    tuning = UnmaskingTuning(1, None, 6, tuple(range(6)), (0.7, 0.6, 0.3, 0.2, 0.1, 0.05))
    mask = torch.arange(6) < torch.tensor([0, 1, 3, 5, 6])[:, None]
    given = Observed(mask, torch.ones(5, 6, dtype=torch.int64))
    grid = uniform_grid(3, end=0.0).tolist()
    sampler = Planned(numbers=TunedNumbers(tuning, steps=3))
    trace = sample(reverse, sampler, (5, 6), grid=grid, final="none", observed=given, trace=grid)
    assert trace.trace is not None
    masked = (trace.trace.x == 2).sum(-1)  # times, rows
    for row, unknown in enumerate([6, 5, 3, 1]):
        numbers = tuning.numbers(min(3, unknown), unknown)
        expected = [unknown, *(unknown - np.cumsum(numbers)), 0, 0][:4]
        assert masked[:, row].tolist() == [int(n) for n in expected]
    assert masked[:, 4].tolist() == [0] * 4
    found = sample(reverse, sampler, (5, 6), grid=grid, final="none", observed=given)
    assert found.info.evaluations == pytest.approx((3 + 3 + 3 + 1 + 0) / 5)


def test_given_numbers_have_the_law_of_their_pushforward() -> None:
    reverse, _ = masked_case(4)
    sampler, grid = Planned(numbers=(1, 3)), [1.0, 0.5, 0.0]
    expected = pushforward_grid(sampler, reverse, prior(reverse, 4), grid)
    found = sample(reverse, sampler, (4000, 4), grid=grid, final="none", generator=torch.Generator().manual_seed(0))
    place = 3 ** torch.arange(3, -1, -1)
    counts = torch.bincount((found.x0 * place).sum(1), minlength=81)
    assert_drawn_from(counts, expected.reshape(-1))
    assert found.info.evaluations == 2


def test_numbers_that_do_not_fit_the_rows_are_refused() -> None:
    reverse, _ = masked_case(4)
    with pytest.raises(ValueError, match="numbers fill 3 sites, and a row has 4 that are not observed"):
        sample(reverse, Planned(numbers=(1, 2)), (2, 4), grid=[1.0, 0.5, 0.0], final="none")
    with pytest.raises(ValueError, match="every entry of numbers must be a whole number >= 1"):
        Planned(numbers=(1, 0))
    assert repr(Planned(numbers=(1, 2))) == "Planned('random', numbers=(1, 2))"


def test_chains_against_all_chains() -> None:
    cost = np.random.default_rng(0).random((7, 7))
    chains = BestChains(cost)
    for links in range(1, 7):
        every = [(0, *inner, 6) for inner in itertools.combinations(range(1, 6), links - 1)]
        best = min(sum(cost[i, j] for i, j in itertools.pairwise(chain)) for chain in every)
        assert chains.total(links) == pytest.approx(best)
        assert sum(cost[i, j] for i, j in itertools.pairwise(chains.points(links))) == pytest.approx(best)
    assert fewest_steps(lambda n: 1 / n, 0.01, 1000) == 100
    assert fewest_steps(lambda n: 1 / n, 0.01, 99) is None


def test_predictions_between_the_measured_times_are_the_measured_ones() -> None:
    for (i, t), (j, s) in itertools.product(enumerate(ERRORS.times), enumerate(ERRORS.times)):
        if s < t:
            rest = 0.0 if s == 0 else ERRORS.error_of((s, 0.0))
            assert ERRORS.error_of((t, s)) == pytest.approx(ERRORS.errors[j][i - j - 1] + rest)


def test_a_short_step_has_an_error_of_second_order() -> None:
    whole = ERRORS.error_of((0.3, 0.05)) - ERRORS.error_of((0.05, 0.0))
    place = np.linspace(math.sqrt(0.3), math.sqrt(0.05), 11) ** 2
    parts = ERRORS.error_of((*place.tolist(),)) - ERRORS.error_of((place[-1], 0.0))
    assert parts == pytest.approx(whole / 10)


def test_grids_are_better_than_others_and_many_steps_equidistribute_the_root_of_the_density() -> None:
    for steps in (1, 2, 5, 16, 64, 65, 400):
        grid = ERRORS.grid(steps)
        assert len(grid) == steps + 1
        assert (grid[0], grid[-1]) == (1.0, 0.0)
        assert all(a > b for a, b in itertools.pairwise(grid))
        assert ERRORS.error(steps) == pytest.approx(ERRORS.error_of(grid))
        assert ERRORS.error(steps) <= ERRORS.error_of(tuple(uniform_grid(steps, end=0.0).tolist())) + 1e-12
    own = [row[0] for row in ERRORS.errors]
    assert ERRORS.error(1000) == pytest.approx(sum(map(math.sqrt, own)) ** 2 / 1000, rel=1e-2)
    assert ERRORS.error(64) == pytest.approx(64 / 65 * 65 / 64 * ERRORS.error(65), rel=0.05)


def test_a_model_without_errors_has_a_grid_all_the_same() -> None:
    independent = TimeTuning(4, None, (0.0, 0.5, 1.0), ((0.0, 0.0), (0.0,)))
    assert independent.error(100) == 0
    assert len(set(independent.grid(100))) == 101
    assert independent.steps(1e-6) == 1


def test_many_sites() -> None:
    """More sites than the dynamic program distinguishes."""
    tuning = UnmaskingTuning(1, None, 3000, (0, 1500, 2999), (3.0, 1.0, 0.1))
    for steps in (1, 7, 1024, 1500, 3000):
        numbers = tuning.numbers(steps)
        assert (len(numbers), sum(numbers), min(numbers) >= 1) == (steps, 3000, True)
    assert tuning.error(20) < 0.6 * tuning.error(10)
    assert tuning.steps(1e-9) == 3000


def test_json_and_back() -> None:
    masks = UnmaskingTuning(3, None, 6, (0, 2, 5), (0.7, 0.3, 0.3))
    for tuning in (ERRORS, masks):
        assert tuning_from_config(json.loads(json.dumps(tuning.config()))) == tuning


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "other"}, "whose kind is one of 'times', 'numbers of sites'"),
        ({"kind": ["times"]}, "whose kind is one of"),
        ({"more": 1}, "must have the entries errors, kind, relative_stderr, rows, times"),
        ({"rows": 0}, "rows must be a whole number >= 1"),
        ({"rows": "many"}, "rows must be a whole number >= 1"),
        ({"relative_stderr": -1}, "relative_stderr must be a finite number >= 0"),
        ({"times": [0.0, 0.3, 0.2, 1.0]}, "times must increase"),
        ({"times": [0.1, 0.2, 0.3, 1.0]}, "from 0 to 1"),
        ({"times": [0.0, 1.0]}, "errors must have a row per time but the last"),
        ({"times": "0123"}, "times must be a list of numbers, got str"),
        ({"times": [0.0, math.nan, 0.5, 1.0]}, "times must hold finite numbers, got nan"),
        ({"errors": 3}, "errors must be a list of lists, got int"),
        ({"errors": [[0.2, 0.5, 0.9], [0.1, -0.3], [0.05]]}, "errors must be >= 0"),
    ],
)
def test_damaged_times(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tuning_from_config(ERRORS.config() | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sites": 5}, "stay below 5 sites"),
        ({"sites": 1.5}, "sites must be a whole number"),
        ({"known": [1, 2, 5]}, "known must begin with 0"),
        ({"known": [0, 2.5, 5]}, "known must hold whole numbers"),
        ({"known": [0, 2]}, "as many numbers as entropy"),
        ({"entropy": [0.3, 0.7, 0.1]}, "not increase"),
        ({"entropy": [0.3, 0.1, -0.1]}, "entropy must be >= 0"),
    ],
)
def test_damaged_numbers(change: dict[str, Any], message: str) -> None:
    config = UnmaskingTuning(3, None, 6, (0, 2, 5), (0.7, 0.3, 0.3)).config()
    with pytest.raises(ValueError, match=message):
        tuning_from_config(config | change)


def test_the_choice_of_a_tuned_model() -> None:
    masks = UnmaskingTuning(1, None, 6, tuple(range(6)), (0.7, 0.6, 0.3, 0.2, 0.1, 0.05))
    absorbing, uniform = Absorbing(3, LogLinear()), Uniform(3, Constant(1.0))
    plan = choose_sampling(absorbing, 6, steps=3, tuning=masks)
    assert isinstance(plan.sampler, Planned)
    assert (plan.grid_name, plan.final, plan.evaluations, plan.error) == ("tuned", "none", 3, masks.error(3))
    assert plan.sampler.numbers(6) == masks.numbers(3)
    assert "predicted error" in str(plan)
    assert isinstance(choose_sampling(absorbing, 6, steps=6, tuning=masks).sampler, FirstHitting)
    plan = choose_sampling(absorbing, 4, tol=0.2, tuning=masks)
    assert (plan.evaluations, len(plan.grid) - 1) == (masks.steps(0.2, 4),) * 2
    assert isinstance(choose_sampling(absorbing, 0, tol=0.2, tuning=masks).sampler, FirstHitting)
    assert choose_sampling(absorbing, 6, steps=3, sampler=Ancestral(), tuning=masks).grid_name == "uniform"
    for sampler in (None, Ancestral()):
        plan = choose_sampling(uniform, 6, steps=5, sampler=sampler, tuning=ERRORS)
        assert (plan.grid, plan.grid_name, plan.evaluations) == (ERRORS.grid(5), "tuned", 5)
        assert plan.as_json()["error"] == ERRORS.error(5)
    assert choose_sampling(uniform, 6, tol=0.05, tuning=ERRORS).evaluations == ERRORS.steps(0.05)
    assert choose_sampling(uniform, 6, steps=5, sampler=TauLeaping(), tuning=ERRORS).grid_name == "geometric"
    assert choose_sampling(uniform, 6, steps=5, sampler=Ancestral(0.5), tuning=ERRORS).grid_name == "geometric"
    assert choose_sampling(uniform, 6, grid=[1.0, 0.1], tuning=ERRORS).grid_name == "given"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"tol": 0}, ValueError, "tol must be a finite number > 0, got 0"),
        ({"tol": -0.1}, ValueError, "tol must be a finite number > 0"),
        ({"tol": math.nan}, ValueError, "tol must be a finite number > 0"),
        ({"tol": "small"}, TypeError, "tol must be a number > 0"),
        ({"tol": 0.1, "tuning": None}, ValueError, r"tol needs a tuned model.*`tauleap tune MODEL DATA`"),
        ({"tol": 0.1, "steps": 5}, ValueError, "tol decides the steps, so it excludes steps"),
        ({"tol": 0.1, "grid": [1.0, 0.1]}, ValueError, "tol decides the steps, so it excludes grid"),
        ({"tol": 0.1, "sampler": TauLeaping()}, ValueError, "tol is for the sampler that was tuned, got TauLeaping"),
        ({"tol": 1e-9}, ValueError, "needs more than 100,000 steps: write a larger tol"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_tolerances_that_cannot_be_used(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        choose_sampling(Uniform(3, Constant(1.0)), 6, **({"tuning": ERRORS} | arguments))


def test_more_steps_or_sites_than_there_are() -> None:
    masks = UnmaskingTuning(1, None, 6, tuple(range(6)), (0.7, 0.6, 0.3, 0.2, 0.1, 0.05))
    with pytest.raises(ValueError, match="steps must be at most 4, the number of sites to fill, got 5"):
        masks.numbers(5, sites=4)
    with pytest.raises(ValueError, match="sites must be at most 6, the sites of a row, got 7"):
        masks.error(2, sites=7)
