"""Sites with different numbers of states: no impossible state in noise, loss or samples, and the law is right."""

import pytest
import torch

import tauleap as tl
from tauleap.denoise import ExactDenoiser, NetworkDenoiser
from tauleap.noise import Absorbing, ForwardProcess, LogLinear, RankOne
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, Objective, PaperElbo
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
from tauleap.testing.cases import draws
from tauleap.testing.laws import assert_drawn_from, random_law

SIZES = torch.tensor([2, 4, 1, 3])


def prior(seed: int = 0) -> torch.Tensor:
    weights = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.1
    weights = weights * (torch.arange(4) < SIZES[:, None])
    return weights / weights.sum(1, keepdim=True)


def processes() -> list[ForwardProcess]:
    return [RankOne(prior(), LogLinear()), Absorbing(5, LogLinear(), sizes=SIZES)]


def possible(x: torch.Tensor, process: ForwardProcess) -> bool:
    """Whether every site has one of its states, or the mask."""
    allowed = process.prior() > 0
    return bool(allowed.expand(*x.shape, -1).gather(-1, x[..., None]).all())


def network_reverse(process: ForwardProcess, seed: int = 0) -> ReverseProcess:
    """A network whose logits favour the states that are not there."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = tl.network.SequenceTransformer(process.num_states, (4,), width=16, depth=1, heads=2)
        torch.nn.init.normal_(network.output.weight, std=2.0)
        network.output.bias.data = torch.arange(process.num_states).float() * 5
    return ReverseProcess(process, NetworkDenoiser(network))


def data(n: int = 64) -> torch.Tensor:
    return (torch.rand(n, 4, generator=torch.Generator().manual_seed(1)) * SIZES).long()


SAMPLERS: list[Sampler] = [
    TauLeaping("reject"),
    TauLeaping("last"),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Trapezoidal(),
    Extrapolated(),
    FirstJump(),
    FirstHitting(),
    NextReaction(step=0.1),
    Uniformization(),
    WithCorrector(Ancestral(), steps=1, scale=0.3, start=0.5),
]
OBJECTIVES: list[Objective] = [
    CompleteElbo(),
    CompleteElbo(reconstruction=True),
    PaperElbo(passes=1),
    PaperElbo(passes=2) + 0.001 * CrossEntropy(),
    CrossEntropy("mean"),
    DiscreteTimeElbo(10),
]


@pytest.mark.parametrize("process", processes(), ids=lambda p: type(p).__name__)
def test_noise_never_leads_to_a_state_that_is_not_there(process: ForwardProcess) -> None:
    x0 = data(5000)
    for t in (0.0, 0.01, 0.5, 1.0):
        x = process.noise(x0, t, generator=torch.Generator().manual_seed(2))
        assert possible(x, process)
        kernel = process.kernel_from(x0[:20], t, dtype=torch.float64)
        assert bool((kernel[(process.prior() == 0).expand_as(kernel)] == 0).all())
    assert torch.equal(process.data_states[..., :4], torch.arange(4) < SIZES[:, None])


@pytest.mark.parametrize("process", processes(), ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_samples_of_a_network_have_possible_states_alone(process: ForwardProcess, sampler: Sampler) -> None:
    try:
        sampler.check(process)
    except ValueError:
        assert isinstance(sampler, FirstHitting)
        assert isinstance(process, RankOne)
        return
    reverse = network_reverse(process)
    end = 0.05
    made = sample(
        reverse,
        sampler,
        (40, 4),
        grid=uniform_grid(6, end=end),
        trace=[0.5],
        final="sample",
        generator=torch.Generator().manual_seed(0),
    )
    assert made.trace is not None
    assert possible(made.trace.x[0], process)
    assert bool((made.trace.predicted_x0[0] < SIZES).all())
    assert bool((made.x0 < SIZES).all())


@pytest.mark.parametrize("process", processes(), ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_losses_and_gradients_are_numbers(process: ForwardProcess, objective: Objective) -> None:
    """With missing and observed sites too; the weights of impossible outputs get no gradient."""
    reverse, x0 = network_reverse(process), data()
    missing = torch.rand(x0.shape, generator=torch.Generator().manual_seed(3)) < 0.2
    observed = tl.Observed((torch.rand(x0.shape, generator=torch.Generator().manual_seed(4)) < 0.3) & ~missing, x0)
    loss = objective(reverse, x0, observed=observed, missing=missing, generator=torch.Generator().manual_seed(0))
    assert bool(torch.isfinite(loss.value).all())
    loss.mean().backward()
    gradients = [p.grad for p in reverse.parameters() if p.grad is not None]
    assert gradients
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


@pytest.mark.parametrize("process", processes(), ids=lambda p: type(p).__name__)
def test_ancestral_sampling_has_the_exact_law(process: ForwardProcess) -> None:
    """200 steps with the exact posterior, 4,000 draws: chi-square at the suites' level over all joint states."""
    law = random_law(process.data_states, 3)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    made = sample(
        reverse,
        Ancestral(),
        (4000, 4),
        grid=uniform_grid(200, end=0.001),
        final="sample",
        generator=torch.Generator().manual_seed(0),
    )
    places = law.shape[0] ** torch.arange(3, -1, -1)
    counts = torch.bincount((made.x0 * places).sum(1), minlength=law.numel())
    assert_drawn_from(counts, law.reshape(-1))


@pytest.mark.parametrize("process", processes(), ids=lambda p: type(p).__name__)
def test_the_bound_of_the_exact_posterior_is_the_entropy(process: ForwardProcess) -> None:
    law = random_law(process.data_states, 3)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x0 = draws(law, 2000, torch.Generator().manual_seed(0))
    found = tl.evaluate.bits_per_dim(reverse, x0, samples=8, generator=torch.Generator().manual_seed(1))
    entropy = -float(torch.xlogy(law, law).sum()) / torch.log(torch.tensor(2.0)).item() / 4
    assert abs(found.value - entropy) < 4 * found.stderr


def test_sizes_that_are_no_sizes() -> None:
    with pytest.raises(TypeError, match="int64"):
        Absorbing(4, LogLinear(), sizes=torch.tensor([1.0]))
    with pytest.raises(ValueError, match=r"1\.\.3"):
        Absorbing(4, LogLinear(), sizes=torch.tensor([4]))
    with pytest.raises(ValueError, match=r"match the sites \(2,\)"):
        Absorbing(4, LogLinear(), sizes=torch.tensor([3, 2])).noise(torch.zeros(1, 3, dtype=torch.int64), 0.5)
