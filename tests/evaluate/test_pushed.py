"""Laws pushed through samplers: what they become is what the theory says, for exact denoisers and for networks."""

import pytest
import torch
from torch.testing import assert_close

import tauleap as tl
from tauleap.evaluate import exact_law, pushed
from tauleap.evaluate.exact import chain_law
from tauleap.evaluate.joint_space import site_kernels
from tauleap.sampling import Ancestral, FirstHitting, FirstJump, Sampler, TauLeaping, Uniformization, uniform_grid
from tauleap.testing.cases import NAMES, correlated, of_every_kind, process
from tauleap.testing.laws import push, random_law


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_reverse_chain_takes_the_marginal_to_the_marginal(name: str) -> None:
    """Proposition 1: with the true posterior the reverse chain has the law q_s at s when it has q_t at t."""
    reverse, law = correlated(name, 2)
    found = chain_law(reverse, pushed.marginal(reverse, law, 1.0), 1.0, 0.1)
    assert_close(found, pushed.marginal(reverse, law, 0.1), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "sampler"), [("uniform", Uniformization()), ("absorbing", FirstHitting())])
def test_exact_samplers_generate_the_exact_law(name: str, sampler: Sampler) -> None:
    reverse, _ = correlated(name, 2)
    assert_close(
        pushed.generated(sampler, reverse, 2, [1.0, 0.01], final="sample"), exact_law(reverse, (2,)), rtol=0, atol=1e-6
    )


def test_the_way_ends_where_the_run_does_and_the_final_step_follows() -> None:
    reverse, _ = correlated("birth/death", 2)
    grid, start = uniform_grid(5), pushed.prior(reverse, 2)
    way = list(pushed.path(Ancestral(), reverse, start, grid))
    assert [t for t, _ in way] == grid.tolist()
    assert torch.equal(way[0][1], start)
    assert torch.equal(way[-1][1], pushed.run(Ancestral(), reverse, start, grid))
    assert torch.equal(pushed.generated(Ancestral(), reverse, 2, grid, final="none"), way[-1][1])
    last, kept = pushed.along(Ancestral(), reverse, start, grid, (0.9, 0.0, 0.95))
    assert torch.equal(last, way[-1][1])
    for law, number in zip(kept, (1, 5, 0), strict=True):
        assert torch.equal(law, way[number][1])
    for final in ("mode", "sample"):
        expected = pushed.finished(reverse, way[-1][1], 0.01, final)
        assert torch.equal(pushed.generated(Ancestral(), reverse, 2, grid, final=final), expected)
        assert_close(expected.sum(), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("sampler", [TauLeaping("add"), TauLeaping("last"), Ancestral()])
def test_a_network_in_float32_gives_a_law_in_float64(sampler: Sampler) -> None:
    """Of total 1 to more digits than the network has."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = tl.network.ResidualMLP(3, (2,))
    reverse = tl.ReverseProcess(process("Gaussian"), tl.denoise.NetworkDenoiser(network))
    with torch.no_grad():
        law = pushed.generated(sampler, reverse, 2, uniform_grid(4))
    assert law.dtype == torch.float64
    assert abs(float(law.sum()) - 1) < 1e-13


@pytest.mark.parametrize("name", ["rank one", "rank one by site", "absorbing"])
def test_first_jumps_keep_the_mass_where_the_rate_ends_steeply(name: str) -> None:
    """A log-linear schedule ends at a rate of 1,000, nearly all of it within the first step."""
    noise = of_every_kind()[name]
    law = random_law(noise.data_states.expand(2, -1), seed=1)
    reverse = tl.ReverseProcess(noise, tl.denoise.ExactDenoiser(law, noise))
    start = push(law, site_kernels(noise, (2,), 1.0))
    assert float(pushed.run(FirstJump(), reverse, start, uniform_grid(4, end=0.1)).sum()) == pytest.approx(1, abs=1e-6)
