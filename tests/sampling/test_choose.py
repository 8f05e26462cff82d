"""The selected sampler, grid and final step: exact where that costs least, and the same for every caller."""

import pytest
import torch

import tauleap as tl
from tauleap import _defaults
from tauleap.noise import Absorbing, Constant, Cosine, LogLinear, Schedule, Uniform
from tauleap.sampling import (
    Ancestral,
    FirstHitting,
    TauLeaping,
    choose_sampling,
    geometric_grid,
    noise_grid,
    uniform_grid,
)
from tauleap.testing.cases import counts
from tauleap.testing.laws import assert_drawn_from


def model_of(schedule: Schedule) -> tuple[tl.Model, torch.Tensor]:
    law = torch.rand(3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) ** 3
    pmf = torch.zeros(4, 4, 4, dtype=torch.float64)
    pmf[:3, :3, :3] = law / law.sum()
    process = Absorbing(4, schedule)
    return tl.Model(process, tl.denoise.ExactDenoiser(pmf, process), shape=(3,)), pmf


@pytest.mark.parametrize("schedule", [LogLinear(), Cosine(), Constant(5.0)])
def test_few_sites_of_absorbing_noise_are_sampled_exactly(schedule: Schedule) -> None:
    model, pmf = model_of(schedule)
    plan = model.sampling_plan(steps=3)
    assert isinstance(plan.sampler, FirstHitting)
    assert (plan.grid, plan.final, plan.evaluations) == ((1.0, 0.0), "none", 3)
    x = model.sample(20_000, steps=3, seed=0)
    assert_drawn_from(counts(x, pmf), pmf.flatten())


def test_completions_count_the_sites_that_are_drawn() -> None:
    """Three steps are enough for two unknown sites, and exact: given the first site, the others have its law."""
    model, pmf = model_of(LogLinear())
    x = torch.zeros(20_000, 3, dtype=torch.int64)
    filled = model.complete(x, torch.tensor([True, False, False]), steps=2, seed=0)
    given = pmf[0] / pmf[0].sum()
    assert_drawn_from(counts(filled[:, 1:], given), given.flatten())
    assert isinstance(model.sampling_plan(steps=2, sites=2).sampler, FirstHitting)
    assert isinstance(model.sampling_plan(steps=2).sampler, Ancestral)


def test_no_site_stays_masked_if_a_random_number_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    from tauleap import _draw

    uniforms = _draw.uniforms
    monkeypatch.setattr(_draw, "uniforms", lambda *arguments: torch.zeros_like(uniforms(*arguments)))
    model, _ = model_of(LogLinear())
    assert bool((model.sample(4, seed=0) < 3).all())


@pytest.mark.parametrize(
    ("process", "steps", "name"),
    [
        (Absorbing(4, LogLinear()), 4, "uniform"),
        (Absorbing(4, LogLinear()), 32, "uniform"),
        (Absorbing(4, LogLinear()), 33, "noise"),
        (Absorbing(4, Cosine()), 100, "noise"),
        (Uniform(4, Constant(1.0)), 4, "geometric"),
        (Uniform(4, Constant(1.0)), 32, "geometric"),
        (Uniform(4, Constant(1.0)), 33, "uniform"),
    ],
)
def test_other_requests_have_ancestral_steps(process: tl.noise.ForwardProcess, steps: int, name: str) -> None:
    plan = choose_sampling(process, 5 if steps == 4 else 1000, steps=steps)
    assert repr(plan.sampler) == "Ancestral()"
    assert (plan.grid_name, len(plan.grid), plan.final, plan.evaluations) == (name, steps + 1, "sample", steps + 1)
    assert (plan.grid[0], plan.grid[-1]) == (1.0, 1e-3)
    made = {
        "uniform": uniform_grid(steps, end=1e-3),
        "geometric": geometric_grid(steps, end=1e-3),
        "noise": noise_grid(process.schedule, steps, end=1e-3),
    }
    assert plan.grid == tuple(made[name].tolist())
    assert f"in {steps} steps, {name} grid" in str(plan)


def test_observed_sites_do_not_change() -> None:
    process = Absorbing(4, LogLinear())
    plan = choose_sampling(process, 3, sampler=TauLeaping("last"))
    assert repr(plan.sampler) == "TauLeaping('last')"
    assert len(plan.grid) == _defaults.SAMPLING_STEPS + 1
    plan = choose_sampling(process, 3, grid=uniform_grid(7, end=0.0))
    assert (len(plan.grid), plan.grid_name, plan.final) == (8, "given", "none")
    assert choose_sampling(process, 1000, steps=1, sampler=FirstHitting()).grid == (1.0, 0.0)
    with pytest.raises(ValueError, match="FirstHitting"):
        choose_sampling(Uniform(4, Constant(1.0)), 3, sampler=FirstHitting())
    with pytest.raises(ValueError, match="steps"):
        choose_sampling(process, 3, steps=0)
