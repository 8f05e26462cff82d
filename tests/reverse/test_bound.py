"""The bound on exit rates holds for every posterior, falls with the noise, and its events come at its rate."""

import pytest
import torch

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
from tauleap.reverse import ReverseProcess
from tauleap.reverse.at import structure_of
from tauleap.reverse.bound import DenseBound, ExitBound
from tauleap.testing import GivenLogits
from tauleap.testing.examples import cycle, one_way

PROCESSES = {
    "uniform": Uniform(5, Constant(0.4)),
    "absorbing": Absorbing(5, LogLinear()),
    "rank one": RankOne(torch.tensor([0.7, 0.2, 0.1, 0.0]), Constant(2.0)),
    "birth/death": BirthDeath(7, Exponential(0.5, 20.0)),
    "Gaussian": Gaussian(8, Exponential(5.0, 5.0), 3.0, 1.0),
    "cycle": Dense(cycle(5), Constant(3.0)),
    "one way": Dense(one_way(), Constant(3.0)),
}
LOW, HIGH = 0.01, 1.0


def exit_bound(process: ForwardProcess, low: float, high: float) -> ExitBound:
    """Return the bound between two amounts of noise."""
    return structure_of(process).exit_bound(low, high)


def bounds(process: ForwardProcess, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    total = process.schedule.total
    bound = exit_bound(process, float(total(LOW)), float(total(HIGH)))
    return bound.at(x, total(t)) * process.schedule.rate(t)[:, None]


@pytest.mark.parametrize("name", PROCESSES)
def test_holds_for_every_posterior(name: str) -> None:
    """Random ones of all degrees of sureness, and all sure ones, at random times."""
    process, generator = PROCESSES[name], torch.Generator().manual_seed(0)
    size, n = process.num_states, 4000
    x = torch.randint(size, (n, 2), generator=generator)
    t = LOW + (HIGH - LOW) * torch.rand(n, dtype=torch.float64, generator=generator) ** 3
    scale = 10 ** (4 * torch.rand(n, 2, 1, generator=generator) - 2)
    logits = scale * torch.randn(n, 2, size, generator=generator, dtype=torch.float64)
    limit = bounds(process, x, t)
    exits = ReverseProcess(process, GivenLogits(logits)).exit_rate(x, t)
    assert bool((exits <= limit * (1 + 1e-9)).all())
    sure = torch.full((n, 2, size), -torch.inf, dtype=torch.float64)
    allowed = process.data_states.nonzero().squeeze(-1)
    sure[:, torch.arange(2), allowed[torch.randint(len(allowed), (n, 2), generator=generator)]] = 0.0
    exits = ReverseProcess(process, GivenLogits(logits.where(sure == 0, -torch.inf))).exit_rate(x, t)
    exits = exits.nan_to_num(0.0)  # where that x0 cannot lead to x
    assert bool((exits <= limit * (1 + 1e-9)).all())
    assert (exits / limit).nan_to_num(0.0).max() > 0.5, "a bound that is never near"


@pytest.mark.parametrize("name", ["birth/death", "Gaussian", "cycle", "one way"])
def test_falls_as_the_noise_grows(name: str) -> None:
    """What makes the value at the lower end of an interval a bound for all of it."""
    process = PROCESSES[name]
    bound = DenseBound(process, 0.01, 30.0)
    assert bool((bound.rates.diff(dim=0) <= 1e-9 * bound.rates[1:]).all())


@pytest.mark.parametrize("name", ["uniform", "absorbing", "rank one", "birth/death", "Gaussian"])
def test_events_occur_at_the_bounding_rate(name: str) -> None:
    """The integral of the bound up to the event is exponential with mean 1: its mean and spread, to 4 sigma."""
    process, n = PROCESSES[name], 20_000
    total = process.schedule.total
    low, high = float(total(LOW)), float(total(HIGH))
    bound = exit_bound(process, low, high)
    x = torch.tensor([[process.num_states - 1, 0]]).expand(n, -1)
    free = torch.tensor([[True, name != "absorbing"]]).expand(n, -1)
    c = torch.full((n,), high, dtype=torch.float64)
    events = bound.next_event(x, free, c, torch.Generator().manual_seed(1))
    fine = torch.linspace(low, high, 40_001, dtype=torch.float64)
    middle = (fine[1:] + fine[:-1]) / 2
    rates = torch.where(free[:1], bound.at(x[:1].expand(len(middle), -1), middle), 0.0).sum(1)
    integral = torch.cat([torch.zeros(1), (rates * fine.diff()).flip(0).cumsum(0)]).flip(0)  # from c up to high
    found = events > low
    place = torch.searchsorted(fine, events[found]).clamp(1, len(fine) - 1)
    share = (events[found] - fine[place - 1]) / (fine[place] - fine[place - 1])
    elapsed = integral[place - 1] + share * (integral[place] - integral[place - 1])
    survived = torch.exp(-integral[0])
    assert abs(found.double().mean() - (1 - survived)) < 4 * 0.5 / n**0.5 + 1e-3
    expected = 1 - integral[0] * survived / (1 - survived)  # the mean of an exponential that is cut off there
    assert abs(elapsed.mean() - expected) < 4 / n**0.5 + 2e-3
