"""The prior term of the bound follows the process as it is now."""

import copy

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, ForwardProcess, LogLinear, RankOne, Schedule, Uniform
from tauleap.testing.examples import cycle

X0 = torch.tensor([[0, 1], [1, 0]])


def term(process: ForwardProcess) -> Tensor:
    """KL(q_1|0(. | x0) || prior) from the rows of the kernel, with nothing from the cache."""
    q, prior = process.kernel(1.0).rows(X0, torch.float64), process.prior()
    return (torch.xlogy(q, q) - torch.xlogy(q, prior)).sum(-1)


def processes(schedule: Schedule) -> list[ForwardProcess]:
    return [
        Uniform(3, schedule),
        Absorbing(3, schedule),
        RankOne(torch.tensor([0.5, 0.3, 0.2]), schedule),
        RankOne(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), schedule),
        BirthDeath(3, schedule),
        Dense(cycle(3), schedule),
    ]


@pytest.mark.parametrize("number", range(6))
def test_another_schedule_gives_another_term(number: int) -> None:
    process, fresh = processes(Constant(0.4))[number], processes(LogLinear())[number]
    before = process.prior_divergence(X0)
    process.schedule = LogLinear()
    after = process.prior_divergence(X0)
    assert_close(after, fresh.prior_divergence(X0), rtol=0.0, atol=0.0)
    assert_close(after, term(fresh), rtol=1e-9, atol=1e-15)
    assert not torch.allclose(before, after)


def test_a_schedule_that_is_changed_in_place_gives_another_term() -> None:
    schedule = Constant(0.4)
    process = Absorbing(3, schedule)
    process.prior_divergence(X0)
    schedule.beta = 2.0
    assert_close(process.prior_divergence(X0), Absorbing(3, Constant(2.0)).prior_divergence(X0), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("how", ["assigned", "in place", "loaded"])
def test_another_prior_gives_another_term(how: str) -> None:
    law = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    process = RankOne(torch.tensor([0.5, 0.3, 0.2]), Constant(0.4))
    fresh = RankOne(law, Constant(0.4))
    process.prior_divergence(X0)
    if how == "assigned":
        process.law = law
    elif how == "in place":
        process.law.copy_(law)
    else:
        process.load_state_dict(fresh.state_dict())
    assert_close(process.prior_divergence(X0), fresh.prior_divergence(X0), rtol=0.0, atol=0.0)


def test_another_generator_gives_other_kernels() -> None:
    """Kernels are cached as well, by their amount of noise."""
    process, x = BirthDeath(3, Constant(0.4)), torch.tensor([[0]])
    process.kernel(0.5)
    process.rate = 3.0
    expected = BirthDeath(3, Constant(0.4), rate=3.0)
    assert_close(process.kernel_from(x, 0.5), expected.kernel_from(x, 0.5), rtol=0.0, atol=0.0)
    dense = Dense(cycle(3), Constant(0.4))
    dense.kernel(0.5)
    dense.rates.mul_(2.0)
    doubled = Dense(2 * cycle(3), Constant(0.4))
    assert_close(dense.kernel_from(x, 0.5), doubled.kernel_from(x, 0.5), rtol=1e-6, atol=0.0)


def test_moving_or_copying_keeps_the_term() -> None:
    process = Absorbing(3, Constant(0.4))
    before = process.prior_divergence(X0)
    for other in (process.to(torch.float32), copy.deepcopy(process), process.eval()):
        assert_close(other.prior_divergence(X0), before, rtol=0.0, atol=0.0)


def test_the_term_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a second loss nor a change of mode computes it again."""
    made = []
    process = Absorbing(3, Constant(0.4))
    kernel = Absorbing.kernel
    monkeypatch.setattr(Absorbing, "kernel", lambda self, *args: made.append(args) or kernel(self, *args))
    for _ in range(3):
        process.train().prior_divergence(X0)
        process.eval().prior_divergence(X0)
    assert len(made) == 1
