"""ExactDenoiser: the true posterior, by brute force over every clean state."""

import pytest
import torch
from torch.testing import assert_close

from tauleap import Observed
from tauleap.denoise import Denoiser, ExactDenoiser
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import Absorbing, BirthDeath, Constant, Exponential, RankOne, Uniform
from tauleap.testing import PROCESSES, DenoiserContract, Example
from tauleap.testing.laws import assert_relative, posterior_marginals, random_law


class TestExactDenoiser(DenoiserContract):
    num_states = 4

    def make(self) -> Denoiser:
        process = Uniform(4, Constant(0.4))
        return ExactDenoiser(random_law(torch.ones(2, 4), 0), process)


class TestExactDenoiserOnALine(DenoiserContract):
    num_states = 5
    shape = (1, 3)

    def make(self) -> Denoiser:
        process = BirthDeath(5, Exponential(0.5, 10.0))
        return ExactDenoiser(random_law(torch.ones(3, 5), 1, holes=0.5).float(), process)


@pytest.mark.parametrize("example", PROCESSES, ids=repr)
def test_given_sites_are_conditioned_on(example: Example) -> None:
    """Any pattern of given sites: as if they had been seen without noise."""
    process = example.make()
    shape = example.shape or (3,)
    data = process.data_states.expand(*shape, -1).reshape(-1, process.num_states)
    law = random_law(data, 5, holes=0.3)
    exact = ExactDenoiser(law, process)
    states = joint_states(process.num_states, law.ndim)
    states = states[torch.randperm(len(states), generator=torch.Generator().manual_seed(0))[:60]]
    x = states.reshape(-1, *shape)
    likelihood = site_kernels(process, shape, 0.2).mT[torch.arange(law.ndim), states]
    known = torch.nn.functional.one_hot(states, process.num_states).double()
    for pattern in ([True] + [False] * (law.ndim - 1), [False] * (law.ndim - 1) + [True], [True] * law.ndim):
        mask = torch.tensor(pattern)
        expected, total = posterior_marginals(law, torch.where(mask[:, None], known, likelihood))
        possible = total > 0
        assert bool(possible.any())
        observed = Observed(mask.reshape(shape), x)
        spoiled = torch.where(observed.mask, (x + 1) % process.num_states, x)  # what stands there is not looked at
        posterior = exact(spoiled, 0.2, observed=observed)
        assert_relative(posterior.probs.reshape(expected.shape)[possible], expected[possible], 1e-11, floor=1e-250)


def test_posterior_has_the_dtype_of_the_distribution() -> None:
    process, law = Uniform(3, Constant(0.5)), random_law(torch.ones(2, 3), 2)
    x = joint_states(3, 2)
    wide, narrow = ExactDenoiser(law, process), ExactDenoiser(law.float(), process)
    assert wide(x, 0.4).probs.dtype == torch.float64
    assert narrow(x, 0.4).probs.dtype == torch.float32
    assert_close(narrow(x, 0.4).probs.double(), wide(x, 0.4).probs, rtol=1e-5, atol=1e-7)
    assert narrow.double()(x, 0.4).probs.dtype == torch.float64


def test_many_samples_are_done_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    process, law = Uniform(3, Constant(0.5)), random_law(torch.ones(3, 3), 3)
    x = joint_states(3, 3)
    whole = ExactDenoiser(law, process)(x, 0.4).probs
    monkeypatch.setattr("tauleap.denoise.exact._BLOCK_ENTRIES", 40)
    assert_close(ExactDenoiser(law, process)(x, 0.4).probs, whole, rtol=1e-14, atol=0.0)


def test_impossible_states_have_a_posterior() -> None:
    """No NaN where nothing could have led to x: neither where the law has a hole nor where noise has left nothing."""
    process = Absorbing(3, Constant(1.0))
    law = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    posterior = ExactDenoiser(law, process)(torch.tensor([[0, 1], [0, 2]]), 0.5)
    assert_close(posterior.probs[0], torch.full((2, 3), 1 / 3))
    assert_close(posterior.probs[1], torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    gone = ExactDenoiser(law, Absorbing(3, Constant(800.0)))(torch.tensor([[0, 2]]), 1.0)
    assert_close(gone.probs.sum(-1), torch.ones(1, 2))


def test_distribution_with_non_data_states_raises() -> None:
    with pytest.raises(ValueError, match=r"pmf gives dimension 1 the states \[2\], which data of this process cannot"):
        ExactDenoiser(torch.full((3, 3), 1 / 9) * torch.tensor([[1.5], [1.5], [0]]), Absorbing(3, Constant(1.0)))
    per_site = RankOne(torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), Constant(1.0))
    law = torch.zeros(3, 3)
    law[0, 2] = 1.0
    ExactDenoiser(law, per_site)
    with pytest.raises(ValueError, match=r"dimension 0 the states \[2\]"):
        ExactDenoiser(law.mT.contiguous(), per_site)
    with pytest.raises(ValueError, match="2 sites with different distributions, pmf has 1"):
        ExactDenoiser(torch.tensor([0.5, 0.5, 0.0]), per_site)
