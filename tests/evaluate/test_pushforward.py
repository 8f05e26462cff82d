"""Laws pushed through samplers: what they become is what the theory says, for exact denoisers and for networks."""

import pytest
import torch
from scipy import stats
from torch.testing import assert_close

import tauleap as tl
from tauleap.evaluate import pushforward
from tauleap.evaluate.exact import chain_law
from tauleap.evaluate.joint_space import site_kernels
from tauleap.evaluate.leaps import leap_laws
from tauleap.sampling import (
    Ancestral,
    FirstHitting,
    FirstJump,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    uniform_grid,
)
from tauleap.testing.cases import NAMES, correlated, of_every_kind, process
from tauleap.testing.laws import push, random_law


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_reverse_chain_takes_the_marginal_to_the_marginal(name: str) -> None:
    """Proposition 1: with the true posterior the reverse chain has the law q_s at s when it has q_t at t."""
    reverse, law = correlated(name, 2)
    found = chain_law(reverse, pushforward.marginal(reverse, law, 1.0), 1.0, 0.1)
    assert_close(found, pushforward.marginal(reverse, law, 0.1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_exact_simulation_from_the_prior_in_closed_form(name: str) -> None:
    """Bayes' rule against the chain's own equation."""
    reverse, law = correlated(name, 2)
    found = pushforward.reverse_chain_law(reverse, law, 0.1)
    assert_close(found, chain_law(reverse, pushforward.prior(reverse, 2), 1.0, 0.1), rtol=0, atol=1e-6)
    assert abs(float(found.sum()) - 1) < 1e-12


def test_sites_may_differ() -> None:
    """Each with its own noise and prior: the same Proposition, and a start from the product of the priors."""
    stationary = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], dtype=torch.float64)
    forward = tl.noise.RankOne(stationary, tl.noise.Constant(2.0))
    law = random_law(torch.ones(2, 3, dtype=torch.bool), 0)
    reverse = tl.ReverseProcess(forward, tl.denoise.ExactDenoiser(law, forward))
    assert_close(pushforward.prior(reverse, 2), stationary[0][:, None] * stationary[1])
    found = chain_law(reverse, pushforward.marginal(reverse, law, 1.0), 1.0, 0.1)
    assert_close(found, pushforward.marginal(reverse, law, 0.1), rtol=0, atol=1e-6)
    found = chain_law(reverse, pushforward.prior(reverse, 2), 1.0, 0.1)
    assert_close(found, pushforward.reverse_chain_law(reverse, law, 0.1), rtol=0, atol=1e-6)


def test_many_jumps_over_many_states_do_not_go_round() -> None:
    """With jumps to the next of 400 states alone, 440 expected, the sum is Poisson's and ends at the last state."""
    size, tau, rate, x = 400, 0.5, 880.0, 10
    rates = torch.zeros(1, 1, size, dtype=torch.float64)
    rates[0, 0, x + 1] = rate
    expected = torch.zeros(size, dtype=torch.float64)
    expected[x:] = torch.from_numpy(stats.poisson.pmf(range(size - x), tau * rate))
    expected[-1] = float(stats.poisson.sf(size - x - 2, tau * rate))
    assert_close(leap_laws(rates, torch.tensor([[x]]), tau, "add")[0, 0], expected, rtol=0, atol=1e-13)


def test_less_accuracy_is_less_work_and_nearly_the_same() -> None:
    """And the accuracy of one call is not that of the next."""
    reverse, _ = correlated("uniform", 2)
    start = pushforward.prior(reverse, 2)
    full = pushforward.pushforward_grid(Uniformization(), reverse, start, [1.0, 0.1])
    coarse = pushforward.pushforward_grid(Uniformization(), reverse, start, [1.0, 0.1], accuracy=pushforward.COARSE)
    assert 1e-9 < float((full - coarse).abs().max()) < 1e-3
    assert torch.equal(pushforward.pushforward_grid(Uniformization(), reverse, start, [1.0, 0.1]), full)
    rough = pushforward.Accuracy(negligible=0.01)
    left = pushforward.pushforward_grid(
        WithCorrector(Trapezoidal(), steps=1), reverse, start, [1.0, 0.1], accuracy=rough
    )
    assert 0.1 < float(left.sum()) < 1 - 1e-6


@pytest.mark.parametrize(("name", "sampler"), [("uniform", Uniformization()), ("absorbing", FirstHitting())])
def test_exact_samplers_have_the_exact_distribution(name: str, sampler: Sampler) -> None:
    reverse, law = correlated(name, 2)
    found = pushforward.sample_law(sampler, reverse, 2, [1.0, 0.01], final="sample")
    expected = pushforward.apply_final(reverse, pushforward.reverse_chain_law(reverse, law, 0.01), 0.01, "sample")
    assert_close(found, expected, rtol=0, atol=1e-6)


def test_the_way_ends_where_the_run_does_and_the_final_step_follows() -> None:
    reverse, _ = correlated("birth/death", 2)
    grid, start = uniform_grid(5), pushforward.prior(reverse, 2)
    way = list(pushforward.trajectory(Ancestral(), reverse, start, grid))
    assert [t for t, _ in way] == grid.tolist()
    assert torch.equal(way[0][1], start)
    assert torch.equal(way[-1][1], pushforward.pushforward_grid(Ancestral(), reverse, start, grid))
    assert torch.equal(pushforward.sample_law(Ancestral(), reverse, 2, grid, final="none"), way[-1][1])
    last, traced = pushforward.laws_at(Ancestral(), reverse, start, grid, (0.9, 0.0, 0.95))
    assert torch.equal(last, way[-1][1])
    for law, number in zip(traced, (1, 5, 0), strict=True):
        assert torch.equal(law, way[number][1])
    for final in ("mode", "sample"):
        expected = pushforward.apply_final(reverse, way[-1][1], 0.01, final)
        assert torch.equal(pushforward.sample_law(Ancestral(), reverse, 2, grid, final=final), expected)
        assert_close(expected.sum(), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("sampler", [TauLeaping("add"), TauLeaping("last"), Ancestral()])
def test_a_network_in_float32_gives_a_distribution_in_float64(sampler: Sampler) -> None:
    """Of total 1 to more digits than the network has."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = tl.network.ResidualMLP(3, (2,))
    reverse = tl.ReverseProcess(process("Gaussian"), tl.denoise.NetworkDenoiser(network))
    with torch.no_grad():
        law = pushforward.sample_law(sampler, reverse, 2, uniform_grid(4))
    assert law.dtype == torch.float64
    assert abs(float(law.sum()) - 1) < 1e-13


@pytest.mark.parametrize("name", ["rank one", "rank one by site", "absorbing"])
def test_first_jumps_keep_the_mass_where_the_rate_ends_steeply(name: str) -> None:
    """A log-linear schedule ends at a rate of 1,000, nearly all of it within the first step."""
    noise = of_every_kind()[name]
    law = random_law(noise.data_states.expand(2, -1), seed=1)
    reverse = tl.ReverseProcess(noise, tl.denoise.ExactDenoiser(law, noise))
    start = push(law, site_kernels(noise, (2,), 1.0))
    assert float(
        pushforward.pushforward_grid(FirstJump(), reverse, start, uniform_grid(4, end=0.1)).sum()
    ) == pytest.approx(1, abs=1e-6)
