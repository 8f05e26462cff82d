"""How the error falls with the step: whole laws pushed through the steps, nothing drawn (``evaluate.pushforward``).

The start is q_1, there is no final step, and the target is q at the last time of the grid.
"""

import itertools

import pytest
import torch
from torch import Tensor

from tauleap.evaluate.joint_space import joint_states
from tauleap.evaluate.pushforward import marginal, push_corrector, push_sites, pushforward_grid
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    uniform_grid,
)
from tauleap.sampling.tau_leaping import MultipleJumps
from tauleap.testing.cases import LEAPS, NAMES, correlated, slope, smooth, total_variation

END = 0.1


def error(sampler: Sampler, case: tuple[ReverseProcess, Tensor], steps: int) -> float:
    reverse, law = case
    found = pushforward_grid(sampler, reverse, marginal(reverse, law, 1.0), uniform_grid(steps, end=END))
    assert found.sum().item() == pytest.approx(1.0, abs=1e-9)
    return total_variation(found, marginal(reverse, law, END))


def order(sampler: Sampler, case: tuple[ReverseProcess, Tensor], steps: tuple[int, ...]) -> float:
    return slope([1 / n for n in steps], [error(sampler, case, n) for n in steps])


@pytest.mark.parametrize(("name", "how"), LEAPS)
def test_tau_leaping_is_of_order_1(name: str, how: MultipleJumps) -> None:
    assert order(TauLeaping(how), correlated(name, sites=2), (24, 48, 96)) >= 0.9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sites", [2, 3])
def test_ancestral_is_of_order_1(name: str, sites: int) -> None:
    case = correlated(name, sites)
    assert order(Ancestral(), case, (12, 24, 48)) >= 0.9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sampler", [Ancestral(), Ancestral(look_ahead=0.5), Extrapolated()])
def test_one_site_is_sampled_exactly_by_ancestral_steps(name: str, sampler: Sampler) -> None:
    for steps in (1, 3, 10):
        assert error(sampler, correlated(name, sites=1, num_states=5), steps) < 1e-12


def d3pm(reverse: ReverseProcess, law: Tensor, k: int) -> Tensor:
    """The law of ``sample(reverse, Ancestral(), ..., grid=[k/k, ..., 1/k], final="sample")``, started from q_1."""
    law = pushforward_grid(Ancestral(), reverse, marginal(reverse, law, 1.0), [step / k for step in range(k, 0, -1)])
    probs = reverse.posterior(joint_states(law.shape[0], law.ndim), 1 / k).probs
    return push_sites(law.reshape(-1), probs)


@pytest.mark.parametrize("name", NAMES)
def test_d3pm_has_an_error_of_order_1_over_k_for_two_sites_and_none_for_one(name: str) -> None:
    """On its K times, with the exact posterior and the last step of the D3PM sampler: Appendix G."""
    one = correlated(name, sites=1)
    assert total_variation(d3pm(*one, 3), one[1]) < 1e-12
    case = correlated(name, sites=2) if name == "absorbing" else smooth(name, sites=2, num_states=3)
    ks = (16, 32, 64)
    errors = [total_variation(d3pm(*case, k), case[1]) for k in ks]
    assert 0.95 <= slope([1 / k for k in ks], errors) <= 1.05


@pytest.mark.parametrize("name", ["uniform", "birth/death", "Gaussian"])
def test_looking_ahead_halves_the_error_of_ancestral_steps(name: str) -> None:
    case = correlated(name, sites=2)
    assert error(Ancestral(look_ahead=0.5), case, 32) < 0.65 * error(Ancestral(), case, 32)


@pytest.mark.parametrize("theta", [0.4, 0.5])
def test_trapezoidal_has_order_2_for_a_smooth_distribution(theta: float) -> None:
    assert order(Trapezoidal(theta), smooth("birth/death", sites=1), (16, 32, 64)) >= 1.8


@pytest.mark.parametrize("name", ["uniform", "absorbing"])
def test_trapezoidal_has_at_most_a_fifth_of_the_error_of_tau_leaping(name: str) -> None:
    """At 128 evaluations, also where the positive part costs it its order."""
    case = correlated(name, sites=2)
    assert error(Trapezoidal(), case, 64) <= error(TauLeaping("last"), case, 128) / 5


@pytest.mark.parametrize(("name", "sites"), [("uniform", 2), ("absorbing", 3)])
def test_first_jump_is_of_order_2_where_trapezoidal_is_not(name: str, sites: int) -> None:
    case = correlated(name, sites)
    assert order(FirstJump(), case, (6, 12, 24)) >= 1.8
    assert error(FirstJump(), case, 24) < 0.5 * error(Trapezoidal(), case, 24)


def test_first_jump_is_exact_for_two_masked_sites() -> None:
    assert error(FirstJump(), correlated("absorbing", sites=2), 6) < 1e-9  # that of the integral over its time


def test_extrapolated_has_order_2_for_a_smooth_distribution() -> None:
    assert order(Extrapolated(), smooth("birth/death", sites=2, num_states=5), (8, 16, 32)) >= 1.8


@pytest.mark.parametrize("name", NAMES)
def test_next_reaction_is_of_order_2_in_its_own_step(name: str) -> None:
    reverse, law = correlated(name, sites=2)
    start, target = marginal(reverse, law, 1.0), marginal(reverse, law, END)
    steps = [0.1, 0.05, 0.025]
    errors = [
        total_variation(pushforward_grid(NextReaction(step), reverse, start, [1.0, END]), target) for step in steps
    ]
    assert slope(steps, errors) >= 1.8


@pytest.mark.parametrize(("name", "how"), LEAPS)
def test_a_corrector_leap_keeps_the_marginal_to_order_2(name: str, how: MultipleJumps) -> None:
    """R + Rhat has q_t as its stationary law, so that what a leap of length tau does to it is O(tau^2)."""
    reverse, law = correlated(name, sites=2)
    for t in (0.1, 0.6):
        taus, exact = [0.02, 0.01, 0.005, 0.0025], marginal(reverse, law, t)
        errors = [total_variation(push_corrector(reverse, exact, t, tau, how), exact) for tau in taus]
        assert slope(taus, errors) >= 1.8


def test_a_corrector_reduces_the_distance_to_the_marginal() -> None:
    reverse, law = correlated("uniform", sites=2)
    exact, far = marginal(reverse, law, 0.3), torch.full_like(law, 1 / law.numel())
    distances = [total_variation(far, exact)]
    for _ in range(20):
        far = push_corrector(reverse, far, 0.3, 0.02)
        distances.append(total_variation(far, exact))
    assert distances[-1] < 0.7 * distances[0]
    assert all(later < sooner for sooner, later in itertools.pairwise(distances))
