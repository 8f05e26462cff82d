"""Where the gradients lead: a table of logits ends at the exact reverse rates, for every objective but L_eCT."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_states
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, Gaussian, LogLinear, RankOne, Uniform
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, PaperElbo
from tauleap.testing import GivenLogits
from tauleap.testing.examples import cycle
from tauleap.testing.laws import random_law
from tauleap.testing.paths import TableDenoiser, at_paths, descend, every_path

pytestmark = pytest.mark.usefixtures("unchecked")

SIZE, SITES, TIME = 3, 2, 0.5
PROCESSES = {
    "uniform": Uniform(SIZE, Constant(0.7)),
    "absorbing": Absorbing(SIZE + 1, LogLinear()),
    "rank one": RankOne(torch.tensor([0.6, 0.3, 0.1]), LogLinear()),
    "birth/death": BirthDeath(SIZE, Constant(1.0)),
    "gaussian": Gaussian(SIZE, Constant(0.8), sigma_0=0.8, sigma_r=1.0),
    "cycle": Dense(cycle(SIZE), Constant(1.0)),
}
OBJECTIVES = {
    "CompleteElbo": CompleteElbo(),
    "PaperElbo, 2 passes": PaperElbo(passes=2),
    "CrossEntropy": CrossEntropy(),
    "DiscreteTimeElbo": DiscreteTimeElbo(4),
    "hybrid": DiscreteTimeElbo(4) + 0.1 * CrossEntropy(),
    "supervised": CompleteElbo() + 0.1 * CrossEntropy(),
}


def setting(name: str) -> tuple[ReverseProcess, Tensor]:
    process = PROCESSES[name]
    law = random_law(process.data_states.expand(SITES, -1), seed=3)
    law = 0.5 * law + 0.5 * (law > 0) / (law > 0).sum()
    return ReverseProcess(process, TableDenoiser.random(process.num_states, SITES)), law


def worst_rate(reverse: ReverseProcess, law: Tensor) -> float:
    """How far a rate is off, in terms of the largest rate."""
    states = joint_states(reverse.process.num_states, SITES)
    exact = ReverseProcess(reverse.process, ExactDenoiser(law, reverse.process)).rates(states, TIME)
    return float((reverse.rates(states, TIME).detach() - exact).abs().max() / exact.max())


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_descent_ends_at_the_exact_reverse_rates(name: str, objective: str) -> None:
    reverse, law = setting(name)
    assert worst_rate(reverse, law) > 0.05
    descend(OBJECTIVES[objective], reverse, law, TIME)
    assert worst_rate(reverse, law) < 1e-4


@pytest.mark.parametrize("name", PROCESSES)
def test_one_pass_ends_elsewhere(name: str) -> None:
    """L_eCT takes x~ for x in its first term: at two sites the rates end off by a few percent or more.

    Not for absorbing noise, where that term has no gradient.
    """
    reverse, law = setting(name)
    descend(PaperElbo(passes=1), reverse, law, TIME)
    if name == "absorbing":
        assert worst_rate(reverse, law) < 1e-4
    else:
        assert worst_rate(reverse, law) > 0.02


def test_early_birth_death_rates_depend_on_the_distance_to_x0_only() -> None:
    """As c -> 0 the rate up is beta / c times the mean distance up, sum_k k p(x + k), and likewise the rate down."""
    process = BirthDeath(6, Constant(1e-5))
    logits = torch.randn(6, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = torch.arange(6)[:, None]
    reverse = ReverseProcess(process, GivenLogits(logits))
    rates = reverse.rates(x, 1.0).squeeze(1)
    distance = torch.arange(6) - x
    for side in (1, -1):
        mean = (logits.softmax(-1).squeeze(1) * (side * distance).clamp(min=0)).sum(-1)
        inside = ((x + side >= 0) & (x + side < 6)).squeeze(1)
        found = rates[inside].gather(-1, (x + side)[inside]).squeeze(-1)
        assert_close(found, mean[inside], rtol=1e-3, atol=0)


def test_birth_death_rates_do_not_fix_the_posterior() -> None:
    """The rates have two numbers per site, up and down; S - 1 are needed for p(x0 | x). Two posteriors, one loss."""
    process = PROCESSES["birth/death"]
    reverse, law = setting("birth/death")
    descend(CompleteElbo(), reverse, law, TIME)
    states = joint_states(process.num_states, SITES)
    exact = ExactDenoiser(law, process)(states, TIME).probs
    found = reverse.posterior(states, TIME).probs
    assert worst_rate(reverse, law) < 1e-4
    assert (found - exact).abs().max() > 0.02
    # The loss at the exact posterior is the same to the digit.
    path = every_path(process, law, TIME)
    value, best = (
        float((path.weight * at_paths(CompleteElbo(), each, path, TIME)).sum().detach())
        for each in (reverse, ReverseProcess(process, ExactDenoiser(law, process)))
    )
    assert abs(value - best) < 1e-9
    # Cross entropy, however little of it, decides.
    reverse, law = setting("birth/death")
    descend(CompleteElbo() + 0.1 * CrossEntropy(), reverse, law, TIME)
    assert (reverse.posterior(states, TIME).probs - exact).abs().max() < 1e-3
