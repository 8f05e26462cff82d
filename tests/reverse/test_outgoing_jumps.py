"""Destinations have the law of the rates on every way that they are drawn, and exit rates are the sums."""

import pytest
import torch
from torch import Tensor

from tauleap.denoise import Posterior
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Uniform,
)
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.reverse.dense import destinations as dense
from tauleap.reverse.dense.destinations import DenseJumps, DestinationSampler
from tauleap.testing import GivenLogits
from tauleap.testing.examples import cycle
from tauleap.testing.laws import assert_drawn_from, count

LEVEL = 1e-3
SIZE = 64


def case(process: ForwardProcess, sites: int, seed: int) -> tuple[ReverseProcess, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(process.num_states, (2, sites), generator=generator)
    logits = 2 * torch.randn(2, sites, process.num_states, generator=generator)
    return ReverseProcess(process, GivenLogits(logits)), x


def check_law(reverse: ReverseProcess, x: Tensor, t: float, draws: int) -> None:
    rates = reverse.rates(x, t).double().reshape(-1, reverse.process.num_states)
    jumps = reverse.at(x, t).jumps
    torch.testing.assert_close(
        jumps.exit_rate.reshape(-1).double(), rates.sum(-1), rtol=2e-5, atol=0.0, check_dtype=False
    )
    sites = torch.arange(len(rates)).repeat(draws)
    drawn = jumps.draw(sites, torch.Generator().manual_seed(0))
    assert_drawn_from(count(drawn.reshape(draws, -1), rates.shape[-1]), rates / rates.sum(-1, keepdim=True), LEVEL)


WAYS = [(0.02, "_by_blocks"), (0.1, "_by_blocks"), (0.4, "_by_blocks"), (1.0, "_by_rejection")]


@pytest.mark.parametrize(("t", "way"), WAYS)
def test_many_draws(t: float, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From small times, where destinations depend on x0, to near mixing, where x0 hardly matters."""
    process = Gaussian(SIZE, Exponential(3.0, 100.0), sigma_0=128.0, sigma_r=3.0)
    taken = []
    owner = DenseJumps if way == "_by_rejection" else DestinationSampler
    plain = getattr(owner, way)
    monkeypatch.setattr(owner, way, lambda self, *given: taken.append(len(given[0])) or plain(self, *given))
    check_law(*case(process, sites=3, seed=1), t, draws=20_000)
    assert sum(taken) > 1000, "the draws went another way than the one to test"


@pytest.mark.parametrize("way", ["_by_blocks", "_by_rows"])
def test_many_draws_of_jumps_that_go_far(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So early that q(. | x0) is not yet even."""
    process, taken = Gaussian(128, Exponential(3.0, 100.0), 128.0, sigma_r=50.0), []
    plain = getattr(DestinationSampler, way)
    monkeypatch.setattr(dense, "_SETTLED", 2.0)  # no draws that leave x0 open
    monkeypatch.setattr(dense, "_FEW_DESTINATIONS", 10**6 if way == "_by_rows" else 500)
    counted = lambda self, *given: taken.append(len(given[0])) or plain(self, *given)  # noqa: E731
    monkeypatch.setattr(DestinationSampler, way, counted)
    check_law(*case(process, sites=3, seed=1), 0.005, draws=20_000)
    assert sum(taken) > 1000, "the draws went another way than the one to test"


def test_many_samples_with_an_impossible_prediction() -> None:
    """States only ever grow, so that no x0 above x is possible, however likely the denoiser finds it."""
    up = torch.diag(torch.ones(SIZE - 1), 1) + torch.diag(torch.full((SIZE - 2,), 0.5), 2)
    process = Dense(up - torch.diag(up.sum(-1)), Constant(20.0))
    x = torch.tensor([[20, 37, 60]])
    logits = 2 * torch.randn(1, 3, SIZE, generator=torch.Generator().manual_seed(1))
    logits += 1000.0 * (torch.arange(SIZE) > x[..., None])
    check_law(ReverseProcess(process, GivenLogits(logits)), x, 0.5, draws=5000)


def test_steps_and_rates_that_meet_at_one_time() -> None:
    """A kernel is kept and met again: by a step from elsewhere, by rates, by a step of no length."""
    reverse, x = case(Gaussian(SIZE, Exponential(3.0, 100.0), 128.0, 3.0), sites=3, seed=1)
    many, logits = x.repeat(3000, 1), reverse.denoiser.logits  # pyright: ignore[reportAttributeAccessIssue]
    posterior, generator = Posterior(logits.repeat(3000, 1, 1)), torch.Generator().manual_seed(0)
    for t, s in ((0.06, 0.02), (0.03, 0.02)):
        drawn = reverse.draw_step(many, t, s, posterior=posterior, generator=generator)
        probs = reverse.step_probs(x, t, s).double().reshape(-1, SIZE)
        assert_drawn_from(count(drawn.reshape(3000, -1), SIZE), probs / probs.sum(-1, keepdim=True), LEVEL)
    check_law(reverse, x, 0.02, draws=3000)
    assert torch.equal(reverse.draw_step(many, 0.02, 0.02, posterior=posterior, generator=generator), many)


@pytest.mark.parametrize("t", [0.02, 0.3, 1.0])
def test_few_draws_and_states_that_blocks_do_not_fit(t: float) -> None:
    check_law(*case(Gaussian(SIZE, Exponential(3.0, 100.0), 128.0, 3.0), sites=3, seed=1), t, draws=600)
    check_law(*case(Gaussian(50, Exponential(1.0, 10.0), 25.0, 2.0), sites=3, seed=2), t, draws=4000)


@pytest.mark.parametrize("t", [0.01, 0.5, 1.0])
def test_rank_one(t: float) -> None:
    check_law(*case(Uniform(40, Constant(0.03)), sites=4, seed=3), t, draws=5000)
    law = torch.rand(4, 9, generator=torch.Generator().manual_seed(0)) ** 3
    law[0, 3] = 0.0
    reverse, x = case(RankOne(law / law.sum(-1, keepdim=True), Constant(2.0)), sites=4, seed=4)
    x[:, 0] = 5
    check_law(reverse, x, t, draws=5000)


def test_where_some_x0_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with entries below what float64 holds: such x0 are left out and the rest is normalised."""
    process = BirthDeath(SIZE, Constant(0.1))
    reverse, x = case(process, sites=4, seed=5)
    kernel = process.kernel(1e-5)
    assert kernel.has_zeros  # pyright: ignore[reportAttributeAccessIssue]
    check_law(reverse, x, 1e-5, draws=3000)
    monkeypatch.setattr(dense, "_MANY", 1)
    check_law(reverse, x, 1e-5, draws=3000)


def test_gradients_flow_through_the_exit_rate() -> None:
    for process in (Uniform(5, Constant(0.5)), BirthDeath(5, Constant(1.0))):
        x = torch.randint(5, (3, 2), generator=torch.Generator().manual_seed(1))
        logits = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
        reverse = ReverseProcess(process, GivenLogits(logits))
        (one,) = torch.autograd.grad(reverse.at(x, 0.4).jumps.exit_rate.sum(), logits)
        (other,) = torch.autograd.grad(reverse.rates(x, 0.4).sum(), logits)
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_corrector_and_observed_sites() -> None:
    process = Gaussian(SIZE, Exponential(3.0, 100.0), 128.0, 3.0)
    reverse, x = case(process, sites=3, seed=6)
    mask = torch.tensor([True, False, False]).expand(2, 3)
    observed = Observed(mask, x)
    jumps = reverse.at(x, 0.3, observed=observed).corrector_jumps
    rates = reverse.corrector_rates(x, 0.3, observed=observed).double()
    torch.testing.assert_close(jumps.exit_rate.double(), rates.sum(-1), rtol=2e-5, atol=0.0)
    sites = (~mask).reshape(-1).nonzero().squeeze(-1)
    drawn = jumps.draw(sites.repeat(10_000), torch.Generator().manual_seed(0)).reshape(10_000, -1)
    expected = rates.reshape(-1, SIZE)[sites]
    assert_drawn_from(count(drawn, SIZE), expected / expected.sum(-1, keepdim=True), LEVEL)


def test_a_given_posterior_is_not_changed() -> None:
    """It can be used again after any call."""
    reverse, x = case(Gaussian(SIZE, Exponential(3.0, 100.0), 128.0, 3.0), sites=3, seed=7)
    posterior = reverse.posterior(x, 0.3)
    before = posterior.logits.clone()
    jumps = reverse.at(x, 0.3, posterior=posterior).jumps
    jumps.draw(torch.arange(6).repeat(2000), torch.Generator().manual_seed(0))
    assert torch.equal(posterior.logits, before)


@pytest.mark.parametrize(("t", "s"), [(0.9, 0.85), (0.9, 0.2), (0.05, 0.02), (0.5, 0.0)])
@pytest.mark.parametrize(
    "process",
    [
        Uniform(20, Constant(0.1)),
        Absorbing(8, LogLinear()),
        RankOne(torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05]), Constant(2.0)),
        BirthDeath(9, Constant(2.0)),
        Gaussian(SIZE, Exponential(3.0, 100.0), 128.0, 3.0),
        Dense(cycle(5), Constant(2.0)),
    ],
    ids=lambda process: type(process).__name__,
)
def test_a_step_is_drawn_from_its_probabilities(process: ForwardProcess, t: float, s: float) -> None:
    """Few draws and many, at one time and at one per sample."""
    reverse, x = case(process, sites=3, seed=8)
    x = process.data_states.nonzero().squeeze(-1)[x % int(process.data_states.sum())]
    if isinstance(process, Absorbing):
        x[:, :2] = process.mask
    posterior = reverse.posterior(x, t)
    probs = reverse.step_probs(x, t, s, posterior=posterior).double()
    for number, times in ((4000, t), (300, torch.full((600,), t, dtype=torch.float64))):
        drawn = reverse.draw_step(
            x.repeat(number, 1),
            times,
            s,
            posterior=Posterior(posterior.logits.repeat(number, 1, 1)),
            generator=torch.Generator().manual_seed(1),
        )
        counts = count(drawn.reshape(number, -1), process.num_states).reshape(probs.shape)
        moving = probs.amax(-1) < 1 - 1e-6
        assert torch.equal(counts[~moving] > 0, probs[~moving] > 0.5)
        if bool(moving.any()):
            assert_drawn_from(counts[moving], probs[moving], LEVEL)


def test_a_step_with_a_posterior_that_is_given() -> None:
    """It counts over the data states alone, as in ``step_probs``, and is looked at."""
    process = Absorbing(4, LogLinear())
    logits = torch.tensor([0.0, 1.0, 2.0, 5.0]).expand(20_000, 1, 4)  # much on the mask, which data never is
    reverse, x = ReverseProcess(process, GivenLogits(logits)), torch.full((20_000, 1), 3)
    posterior = Posterior(logits)
    probs = reverse.step_probs(x[:1], 0.9, 0.1, posterior=Posterior(logits[:1])).double().reshape(1, 4)
    drawn = reverse.draw_step(x, 0.9, 0.1, posterior=posterior, generator=torch.Generator().manual_seed(0))
    assert_drawn_from(count(drawn, 4), probs / probs.sum(), LEVEL)
    with pytest.raises(ValueError, match="logits of shape"):
        reverse.draw_step(x, 0.9, 0.1, posterior=Posterior(logits[:3]))
