"""Exact samplers give the data's law: chi-square on 1e5 draws, fixed seed, level 1e-3."""

import pytest
import torch

from tauleap.evaluate.pushforward import marginal, push_corrector, pushforward_grid
from tauleap.noise import Absorbing
from tauleap.sampling import FirstHitting, NextReaction, Sampler, Uniformization, run_corrector, sample
from tauleap.testing.cases import NAMES, correlated, counts, draws, total_variation
from tauleap.testing.laws import assert_drawn_from

LEVEL = 1e-3
DRAWS = 100_000


def exact_samplers(name: str) -> list[Sampler]:
    return [Uniformization(), FirstHitting()] if name == "absorbing" else [Uniformization()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sites", [1, 2, 3])
def test_samples_have_the_data_distribution(name: str, sites: int, generator: torch.Generator) -> None:
    """At a small time, with the little noise that there is; where the bound is wide not so small as to take long."""
    reverse, law = correlated(name, sites)
    end = 0.05 if reverse.process.ordinal else 0.01
    expected = marginal(reverse, law, end)
    for sampler in exact_samplers(name):
        start = reverse.process.noise(draws(law, DRAWS, generator), 1.0, generator=generator)
        found = sample(reverse, sampler, start.shape, grid=[1.0, end], start=start, final="none", generator=generator)
        assert_drawn_from(counts(found.x0, expected), expected.reshape(-1), LEVEL)


def test_first_hitting_reaches_time_0(generator: torch.Generator) -> None:
    """No final step is needed: at time 0 every site is filled, after as many evaluations as there were masks."""
    reverse, law = correlated("absorbing", sites=3)
    assert isinstance(reverse.process, Absorbing)
    start = torch.full((DRAWS, 3), reverse.process.mask)
    found = sample(
        reverse, FirstHitting(), start.shape, grid=[1.0, 0.0], start=start, final="none", generator=generator
    )
    assert found.info.evaluations == 3
    assert_drawn_from(counts(found.x0, law), law.reshape(-1), LEVEL)


def test_next_reaction_has_the_distribution_of_its_rule(generator: torch.Generator) -> None:
    """With a coarse step, whose error is there: the law pushed through the same rule, and not q."""
    reverse, law = correlated("uniform", sites=2)
    sampler, times = NextReaction(step=0.3), [1.0, 0.1]
    start = reverse.process.noise(draws(law, 20_000, generator), 1.0, generator=generator)
    found = sample(reverse, sampler, start.shape, grid=times, start=start, final="none", generator=generator)
    expected = pushforward_grid(sampler, reverse, marginal(reverse, law, 1.0), times)
    assert_drawn_from(counts(found.x0, expected), expected.reshape(-1), LEVEL)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_drawn_from(counts(found.x0, expected), marginal(reverse, law, 0.1).reshape(-1), LEVEL)


def test_the_grid_does_not_change_the_distribution_of_an_exact_sampler(generator: torch.Generator) -> None:
    reverse, law = correlated("Gaussian", sites=2)
    start = reverse.process.noise(draws(law, 20_000, generator), 1.0, generator=generator)
    grid = [1.0, 0.9, 0.5, 0.3, 0.1]
    found = sample(reverse, Uniformization(), start.shape, grid=grid, start=start, final="none", generator=generator)
    expected = marginal(reverse, law, 0.1)
    assert_drawn_from(counts(found.x0, expected), expected.reshape(-1), LEVEL)


@pytest.mark.parametrize("name", NAMES)
def test_at_a_fixed_time_gillespies_algorithm_keeps_the_marginal(name: str, generator: torch.Generator) -> None:
    reverse, law = correlated(name, sites=2)
    law_at_t = marginal(reverse, law, 0.4)
    x = draws(law_at_t, 20_000, generator)
    after, info = run_corrector(reverse, x, 0.4, steps=10, step=0.05, exact=True, generator=generator)
    assert info.jumps > 0.2
    if reverse.process.mask is None:
        assert float(info.evaluations) == pytest.approx(2 * float(info.jumps) + 1, rel=1e-3)
    else:  # jumps into the mask need no prediction, and at the stationary distribution they are half of all
        assert float(info.evaluations) == pytest.approx(float(info.jumps), rel=0.02)
    assert_drawn_from(counts(after, law_at_t), law_at_t.reshape(-1), LEVEL)


@pytest.mark.parametrize("name", ["uniform", "birth/death", "Gaussian"])  # absorbing noise is slow to forget
def test_at_a_fixed_time_gillespies_algorithm_leads_to_the_marginal(name: str, generator: torch.Generator) -> None:
    reverse, law = correlated(name, sites=2)
    law_at_t = marginal(reverse, law, 0.4)
    x = draws(law_at_t, 1, generator).expand(20_000, -1)
    after, _ = run_corrector(reverse, x, 0.4, steps=60, step=0.05, exact=True, generator=generator)
    assert_drawn_from(counts(after, law_at_t), law_at_t.reshape(-1), LEVEL)


@pytest.mark.parametrize("name", NAMES)
def test_at_a_fixed_time_by_leaps(name: str, generator: torch.Generator) -> None:
    """From one state, so that there is a way to go: the law after as many leaps of the corrector, computed exactly."""
    reverse, law = correlated(name, sites=2)
    x = torch.tensor([[0, reverse.process.num_states - 1]])
    expected = torch.zeros_like(law)
    expected[tuple(x[0])] = 1.0
    for _ in range(4):
        expected = push_corrector(reverse, expected, 0.4, 0.1)
    after, info = run_corrector(reverse, x.repeat(20_000, 1), 0.4, steps=4, step=0.1, generator=generator)
    if reverse.process.mask is None:
        assert float(info.evaluations) == 4
    else:  # only rows in which a masked site moves are evaluated
        assert 0.3 < float(info.evaluations) < 0.7
    assert_drawn_from(counts(after, expected), expected.reshape(-1), LEVEL)


def test_a_long_run_at_a_fixed_time_ends_in_the_marginal(generator: torch.Generator) -> None:
    """Sixty short leaps from one state: q_t but for the error of the leaps, which is computed too."""
    reverse, law = correlated("birth/death", sites=2)
    exact, law_after = marginal(reverse, law, 0.4), torch.zeros_like(law)
    law_after[0, 0] = 1.0
    for _ in range(60):
        law_after = push_corrector(reverse, law_after, 0.4, 0.02)
    assert total_variation(law_after, exact) < 0.02
    after, _ = run_corrector(reverse, torch.zeros(5000, 2).long(), 0.4, steps=60, step=0.02, generator=generator)
    assert_drawn_from(counts(after, law_after), law_after.reshape(-1), LEVEL)


@pytest.mark.parametrize("gap", [1e-13, 1e-16])
def test_next_reaction_takes_steps_of_any_length(gap: float, generator: torch.Generator) -> None:
    """A grid may have two times that differ by less than a rounding error of the rule's own step."""
    reverse, law = correlated("uniform", sites=2)
    times = [0.5, 0.5 - gap, 0.4]
    start = draws(marginal(reverse, law, 0.5), 4000, generator)
    found = sample(reverse, NextReaction(0.01), start.shape, grid=times, start=start, final="none", generator=generator)
    expected = marginal(reverse, law, 0.4)
    assert_drawn_from(counts(found.x0, expected), expected.reshape(-1), LEVEL)
