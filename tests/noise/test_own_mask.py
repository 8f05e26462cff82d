"""A process of one's own that declares a mask is used as absorbing noise everywhere."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap.denoise import ExactDenoiser
from tauleap.noise import Absorbing, Constant, ForwardProcess, Uniform
from tauleap.objective import AnyOrderElbo
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    FirstHitting,
    Planned,
    Sampler,
    WithCorrector,
    choose_sampling,
    sample,
    uniform_grid,
)
from tauleap.sampling.conditions import draw_conditions
from tauleap.testing import ProcessContract


class Hiding(ForwardProcess):
    """Absorbing noise from a generator alone, whose mask is state 3."""

    mask = 3

    def generator(self) -> Tensor:
        rates = -torch.eye(self.num_states, dtype=torch.float64)
        rates[:, 3] += 1.0
        return rates

    def stationary(self) -> Tensor:
        return torch.eye(self.num_states, dtype=torch.float64)[3]

    def prior(self) -> Tensor:
        left = torch.exp(-self.schedule.total(1.0))
        return torch.where(self.data_states, left / (self.num_states - 1), (1 - left) * self.stationary())

    def sampling_prior(self) -> Tensor:
        return self.stationary()

    @property
    def data_states(self) -> Tensor:
        return torch.arange(self.num_states) != 3


class TestHiding(ProcessContract):
    prior_is_stationary = False

    def make(self) -> ForwardProcess:
        return Hiding(4, Constant(0.5))


def _reverse(process: ForwardProcess) -> ReverseProcess:
    pmf = torch.zeros(4, 4, dtype=torch.float64)
    pmf[:3, :3] = torch.tensor([[0.2, 0.1, 0.0], [0.0, 0.3, 0.1], [0.1, 0.0, 0.2]])
    return ReverseProcess(process, ExactDenoiser(pmf, process))


BOTH = Hiding(4, Constant(3.0)), Absorbing(4, Constant(3.0))


def _seed() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("sampler", [FirstHitting(), Planned("entropy"), WithCorrector(Ancestral(), 1, kind="gibbs")])
def test_samplers_fill_every_site(sampler: Sampler) -> None:
    reverse = _reverse(BOTH[0])
    drawn = sample(reverse, sampler, (50, 2), grid=uniform_grid(8, end=0.0), final="none", generator=_seed())
    assert bool((drawn.x0 < 3).all())


@pytest.mark.parametrize("sampler", [FirstHitting(), Planned("entropy")])
def test_samplers_draw_the_same(sampler: Sampler) -> None:
    one, other = (
        sample(_reverse(each), sampler, (50, 2), grid=uniform_grid(8, end=0.0), final="none", generator=_seed())
        for each in BOTH
    )
    assert torch.equal(one.x0, other.x0)


def test_objective_conditions_and_choice_are_the_same() -> None:
    x0 = torch.tensor([[0, 1], [1, 2]])
    one, other = (AnyOrderElbo()(_reverse(each), x0, generator=_seed()).value for each in BOTH)
    assert_close(one, other)
    sets = {0: torch.tensor([1.0, 1.0, 0.0, 0.0])}
    first, second = (draw_conditions(_reverse(each), (20, 2), sets, generator=_seed()) for each in BOTH)
    assert torch.equal(first.observed.values, second.observed.values)
    assert first.log_probability == pytest.approx(second.log_probability)
    assert {str(choose_sampling(each, 2).sampler) for each in BOTH} == {"FirstHitting()"}


def test_other_noise_has_no_mask() -> None:
    assert Uniform(4, Constant(1.0)).mask is None
    with pytest.raises(ValueError, match=r"only Absorbing noise has, got Uniform: write Ancestral\(\)"):
        Planned().check(Uniform(4, Constant(1.0)))
