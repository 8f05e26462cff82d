"""Sampling under absorbing noise starts fully masked: no site begins in a data state that the model would not give."""

import pytest
import torch
from torch import Tensor

from tauleap.denoise import Denoiser, ExactDenoiser, Posterior
from tauleap.evaluate import exact_law, exact_log_likelihood
from tauleap.evaluate.pushforward import sample_law
from tauleap.noise import Absorbing, Constant, LogLinear, RankOne, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    sample,
    uniform_grid,
)
from tauleap.testing.cases import counts
from tauleap.testing.laws import assert_drawn_from

SAMPLERS = (
    Ancestral(),
    Extrapolated(),
    FirstHitting(),
    FirstJump(),
    NextReaction(step=0.5),
    TauLeaping("last"),
    Trapezoidal(),
    Uniformization(),
    WithCorrector(Ancestral(), steps=1, scale=0.1),
)


class WithoutStateZero(Denoiser):
    """States 1 and 2 are equally likely at every site, state 0 has probability e^-60."""

    def forward(
        self, x_t: Tensor, t: float | Tensor, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        return Posterior(torch.tensor([-60.0, 0.0, 0.0, 0.0]).expand(*x_t.shape, 4))


def excluding() -> ReverseProcess:
    return ReverseProcess(Absorbing(4, LogLinear()), WithoutStateZero())


def test_no_excluded_state_in_ten_thousand_long_rows() -> None:
    drawn = sample(
        excluding(),
        Ancestral(),
        (10_000, 256),
        grid=uniform_grid(2),
        batch_size=1000,
        final="sample",
        generator=torch.Generator().manual_seed(0),
    )
    assert int((drawn.x0 == 0).sum()) == 0
    assert int((drawn.x0 == 3).sum()) == 0


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_no_sampler_starts_in_a_data_state(sampler: Sampler) -> None:
    """A start from the prior of the bound would leave about 64 of the 60 x 64 sites in state 0."""
    process = Absorbing(4, Constant(3.0))
    drawn = sample(
        ReverseProcess(process, WithoutStateZero()),
        sampler,
        (60, 64),
        grid=uniform_grid(2, end=0.3),
        final="sample",
        generator=torch.Generator().manual_seed(1),
    )
    assert int((drawn.x0 == 0).sum()) == 0


def test_the_start_may_be_given() -> None:
    start = torch.tensor([[0, 3, 1]]).repeat(5, 1)
    drawn = sample(excluding(), FirstHitting(), (5, 3), grid=uniform_grid(2), start=start, final="none")
    assert torch.equal(drawn.x0[:, [0, 2]], start[:, [0, 2]])


def test_the_bound_keeps_its_mixture() -> None:
    process = Absorbing(4, LogLinear())
    left = torch.exp(-process.schedule.total(1.0))
    torch.testing.assert_close(process.prior(), torch.stack([left / 3, left / 3, left / 3, 1 - left]))
    assert torch.equal(process.sampling_prior(), torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64))


def test_masks_named_and_sites_of_their_own_start_masked() -> None:
    process = Absorbing(4, LogLinear(), mask=1, sizes=torch.tensor([3, 1, 2]))
    assert torch.equal(process.sampling_prior(), torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64))


def test_other_processes_start_from_their_prior() -> None:
    law = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    for process in (Uniform(3, LogLinear()), RankOne(law, LogLinear())):
        assert torch.equal(process.sampling_prior(), process.prior())


def test_the_exact_distribution_of_samples_starts_masked() -> None:
    """The pushed law and draws agree, where a start from the prior of the bound would differ by 4 % at each site."""
    reverse, sampler = ReverseProcess(Absorbing(4, Constant(3.0)), WithoutStateZero()), Ancestral()
    law = sample_law(sampler, reverse, 2, uniform_grid(3), final="sample")
    assert float(law[0].sum()) < 1e-20
    drawn = sample(
        reverse,
        sampler,
        (4000, 2),
        grid=uniform_grid(3),
        final="sample",
        generator=torch.Generator().manual_seed(2),
    )
    assert_drawn_from(counts(drawn.x0, law), law.reshape(-1))


def test_the_exact_law_is_that_of_samples_and_the_likelihood_that_of_the_bound() -> None:
    process = Absorbing(3, Constant(1.0))  # a third of the sites is not masked at time 1
    pmf = torch.zeros(3, 3, dtype=torch.float64)
    pmf[0, 0] = pmf[1, 1] = 0.5
    reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
    law = exact_law(reverse, (2,))
    torch.testing.assert_close(law, pmf, atol=1e-3, rtol=0.0)
    drawn = sample(
        reverse,
        Uniformization(),
        (4000, 2),
        grid=[1.0, 0.01],
        final="sample",
        generator=torch.Generator().manual_seed(3),
    )
    assert_drawn_from(counts(drawn.x0, law), law.reshape(-1))
    x = torch.tensor([[0, 1], [0, 0]])
    likelihood = exact_log_likelihood(reverse, x).exp()
    # Both sites start unmasked, in different data states, with probability exp(-1)^2 / 4.
    assert float(likelihood[0]) > 0.03 > 100 * float(law[0, 1])
