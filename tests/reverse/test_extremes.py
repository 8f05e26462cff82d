"""The experiments' own sizes, where kernels span more than float64 holds, and states that could not have come about."""

import pytest
import torch
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    Uniform,
)
from tauleap.testing import GivenLogits
from tauleap.testing.laws import assert_drawn_from, assert_relative, count
from tauleap.testing.logits import assert_finite_rates, dense_rates, extreme_logits

EXPERIMENTS = {
    "music": lambda: Uniform(129, Constant(0.03)),
    "music-birth-death": lambda: BirthDeath(129, Exponential(0.5, 10_000.0)),
    "toy": lambda: Gaussian(32, Exponential(5.0, 5.0), 8.0, 1.0),
    "images": lambda: Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0),
    "masked": lambda: Absorbing(129, LogLinear()),
}


@pytest.fixture(scope="module", params=EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def process(request: pytest.FixtureRequest) -> ForwardProcess:
    return request.param()


def at_the_borders(size: int) -> torch.Tensor:
    return torch.tensor([0, 1, 2, size // 2, size - 2, size - 1])[:, None]


def test_every_finite_logit_gives_finite_rates(process: ForwardProcess) -> None:
    x = at_the_borders(process.num_states)
    logits = extreme_logits(*x.shape, process.num_states)
    assert_finite_rates(process, x.repeat(len(logits), 1), logits.flatten(0, 1))


def test_certainty_of_any_state_gives_finite_rates(process: ForwardProcess) -> None:
    """The denoiser is sure of one state, the farthest included, and x is at a border."""
    size = process.num_states
    surely = torch.full((size, size), -3e38).fill_diagonal_(3e38)
    x = torch.tensor([0, size - 2])[:, None].expand(-1, size)
    assert_finite_rates(process, x, surely.expand(2, -1, -1).contiguous())


@pytest.mark.parametrize("t", [1e-4, 0.01, 0.3, 1.0])
def test_rates_are_those_of_the_formula(process: ForwardProcess, t: float) -> None:
    """In float64 as it is written, and in float32 as near as float32 can be."""
    x = at_the_borders(process.num_states)
    logits = torch.randn(*x.shape, process.num_states, generator=torch.Generator().manual_seed(0))
    expected = dense_rates(process, x, t, logits)
    wide = ReverseProcess(process, GivenLogits(logits.double())).rates(x, t)
    assert_relative(wide, expected, 1e-9, floor=1e-250)
    narrow = ReverseProcess(process, GivenLogits(logits)).rates(x, t)
    assert_close(narrow.double(), expected, rtol=3e-5, atol=1e-30)


@pytest.mark.parametrize("t", [0.01, 1.0])
@pytest.mark.parametrize("draws", [500, 2000])
def test_destinations_have_the_distribution_of_the_rates(process: ForwardProcess, t: float, draws: int) -> None:
    """Few draws and many may be made in different ways. Chi-square, seed 0, level ``laws.LEVEL``."""
    size = process.num_states
    x = at_the_borders(size)
    logits = torch.randn(*x.shape, size, generator=torch.Generator().manual_seed(0))
    reverse = ReverseProcess(process, GivenLogits(logits))
    sites = (reverse.exit_rate(x, t).reshape(-1) > 0).nonzero().squeeze(-1)
    drawn = reverse.at(x, t).draw_destination(sites.repeat(draws), generator=torch.Generator().manual_seed(0))
    rates = reverse.rates(x, t).reshape(-1, size)[sites].double()
    assert_drawn_from(count(drawn.reshape(draws, -1), size), rates / rates.sum(-1, keepdim=True))


@pytest.mark.parametrize(
    ("process", "t"),
    [
        (BirthDeath(4, Constant(5.2)), 1.0),  # nearly mixed: what x0 is makes a difference of some percent
        (Gaussian(64, Constant(30.0), 16.0, 3.0), 0.1),  # many states, and rates that depend on x0 very much
        (Gaussian(64, Constant(30.0), 16.0, 3.0), 1e-3),
    ],
    ids=["mixed", "middle", "early"],
)
def test_many_draws_tell_small_differences(process: ForwardProcess, t: float) -> None:
    """120,000 draws. Chi-square, seed 0, level ``laws.LEVEL``."""
    size, draws = process.num_states, 20_000
    x = at_the_borders(size) % size
    logits = 2 * torch.randn(*x.shape, size, generator=torch.Generator().manual_seed(0))
    reverse = ReverseProcess(process, GivenLogits(logits))
    sites = torch.arange(len(x)).repeat(draws)
    drawn = reverse.at(x, t).draw_destination(sites, generator=torch.Generator().manual_seed(0))
    rates = reverse.rates(x, t).reshape(-1, size).double()
    assert_drawn_from(count(drawn.reshape(draws, -1), size), rates / rates.sum(-1, keepdim=True))


def test_an_unmasked_site_is_known() -> None:
    """Absorbing noise leaves a state or masks it: what is not masked is the data, whatever the denoiser says."""
    process = Absorbing(4, Constant(2.0))
    x = torch.tensor([[0, 1, 2, 3]])
    logits = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0))
    reverse = ReverseProcess(process, GivenLogits(logits))
    probs = reverse.posterior(x, 0.5).probs
    assert torch.equal(probs[0, :3], torch.eye(4)[:3])
    assert_close(probs[0, 3], torch.cat([logits[0, 3, :3].softmax(-1), torch.zeros(1)]))
    rates = reverse.rates(x, 0.5)
    assert_close(rates[0, :3], torch.zeros(3, 4), rtol=0.0, atol=0.0)
    unmasking = 2.0 / torch.expm1(torch.tensor(1.0))
    assert_close(rates[0, 3], unmasking * probs[0, 3])


def test_the_mask_is_never_data() -> None:
    """However sure the denoiser is of it: at no time does the posterior or a reverse jump lead to the mask."""
    process = Absorbing(3, LogLinear(), mask=1)
    logits = torch.zeros(1, 3, 3)
    logits[..., 1] = 3e38
    reverse = ReverseProcess(process, GivenLogits(logits))
    for t in (0.0, 1e-4, 0.5, 1.0):
        x = torch.tensor([[0, 1, 2]])
        assert bool((reverse.posterior(x, t).probs[..., 1] == 0).all())
        assert bool((reverse.rates(x, t)[..., 1] == 0).all())


def test_where_nothing_is_left_rates_are_numbers() -> None:
    """After so much noise that staying has underflown, an unmasked site cannot be: it gets rates of 0, not NaN."""
    generator = torch.tensor([[-1.0, 0.0, 1.0], [0.0, -1.0, 1.0], [0.0, 0.0, 0.0]])
    for process in (Dense(generator, Constant(800.0)), Absorbing(3, Constant(800.0))):
        reverse = ReverseProcess(process, GivenLogits(torch.zeros(1, 3, 3)))
        x = torch.tensor([[0, 1, 2]])
        assert_close(reverse.rates(x, 1.0)[0, :2], torch.zeros(2, 3), rtol=0.0, atol=0.0)
        assert bool(reverse.exit_rate(x, 1.0).isfinite().all())
        assert_close(reverse.posterior(x, 1.0).probs.sum(-1), torch.ones(1, 3))


def test_the_posterior_given_is_the_posterior_used() -> None:
    """With ``posterior=`` the denoiser is not evaluated again."""
    process = Uniform(4, Constant(0.5))
    x = torch.tensor([[0, 1], [2, 3]])
    reverse = ReverseProcess(process, GivenLogits(torch.randn(2, 2, 4, generator=torch.Generator().manual_seed(0))))
    posterior = reverse.posterior(x, 0.4)
    expected = [
        reverse.rates(x, 0.4),
        reverse.ratios(x, 0.4),
        reverse.corrector_rates(x, 0.4),
        reverse.exit_rate(x, 0.4),
    ]
    reverse.denoiser = GivenLogits(torch.full((2, 2, 4), torch.nan))
    actual = [
        answer(x, 0.4, posterior=posterior)
        for answer in (reverse.rates, reverse.ratios, reverse.corrector_rates, reverse.exit_rate)
    ]
    for one, other in zip(actual, expected, strict=True):
        assert_close(one, other, rtol=0.0, atol=0.0)
    mask = torch.ones(2, 2, dtype=torch.bool)
    drawn = reverse.at(x, 0.4, posterior=posterior).draw_destination(mask, generator=torch.Generator().manual_seed(0))
    assert bool((drawn != x.flatten()).all())


def test_evaluation_does_not_change_the_posterior() -> None:
    for process in (Uniform(4, Constant(0.5)), BirthDeath(4, Constant(0.5)), Absorbing(4, Constant(0.5))):
        logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
        before = logits.clone()
        reverse = ReverseProcess(process, GivenLogits(logits))
        x = torch.tensor([[0, 1, 2], [3, 3, 0]])
        for answer in (reverse.rates, reverse.ratios, reverse.exit_rate, reverse.corrector_rates):
            assert_close(answer(x, 0.4), answer(x, 0.4), rtol=0.0, atol=0.0)
        assert torch.equal(logits, before)


def test_an_empty_batch_and_an_empty_choice() -> None:
    for process in (Uniform(4, Constant(0.5)), BirthDeath(4, Constant(0.5))):
        nothing = torch.zeros(0, 2, dtype=torch.int64)
        reverse = ReverseProcess(process, GivenLogits(torch.zeros(0, 2, 4)))
        assert reverse.rates(nothing, 0.5).shape == (0, 2, 4)
        assert reverse.at(nothing, 0.5).draw_destination(nothing.bool()).shape == (0,)
        some = torch.zeros(3, 2, dtype=torch.int64)
        reverse = ReverseProcess(process, GivenLogits(torch.zeros(3, 2, 4)))
        assert reverse.at(some, 0.5).draw_destination(torch.zeros(0, dtype=torch.int64)).shape == (0,)
