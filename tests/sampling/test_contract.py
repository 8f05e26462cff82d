"""Every sampler keeps the contract."""

import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import site_kernels
from tauleap.evaluate.pushforward import pushforward_grid
from tauleap.noise import ForwardProcess
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
    uniform_grid,
)
from tauleap.testing.laws import push
from tauleap.testing.sampler import END, SamplerContract


class KnownKernel(SamplerContract):
    """For samplers whose steps are known exactly: a few coarse ones must end in the law pushed through the same."""

    steps = 6

    def expected(self, process: ForwardProcess, shape: tuple[int, ...], law: Tensor) -> tuple[Tensor, Tensor]:
        given = torch.zeros_like(law)
        for value in law.flatten(1).sum(1).nonzero().squeeze(-1).tolist():
            # A first site that is known says of the others what it says where its data can be nothing else.
            sure, share = torch.zeros_like(law), law[value].sum()
            sure[value] = law[value] / share
            given[value] = share * self._pushed(process, shape, sure).sum(0)
        return self._pushed(process, shape, law), given

    def _pushed(self, process: ForwardProcess, shape: tuple[int, ...], law: Tensor) -> Tensor:
        start = push(law, site_kernels(process, shape, 1.0))
        reverse = ReverseProcess(process, ExactDenoiser(law, process))
        return pushforward_grid(self.make(), reverse, start, uniform_grid(self.steps, end=END))


class TestTauLeaping(KnownKernel):
    def make(self) -> Sampler:
        return TauLeaping()


class TestTauLeapingLast(KnownKernel):
    def make(self) -> Sampler:
        return TauLeaping("last")


class TestAncestral(KnownKernel):
    def make(self) -> Sampler:
        return Ancestral()


class TestAncestralLookAhead(KnownKernel):
    def make(self) -> Sampler:
        return Ancestral(look_ahead=0.5)


class TestTrapezoidal(SamplerContract):
    steps = 16

    def make(self) -> Sampler:
        return Trapezoidal()


class TestExtrapolated(SamplerContract):
    steps = 10

    def make(self) -> Sampler:
        return Extrapolated()


class TestFirstJump(SamplerContract):
    steps = 10

    def make(self) -> Sampler:
        return FirstJump()


class TestNextReaction(SamplerContract):
    steps = 2

    def make(self) -> Sampler:
        return NextReaction(step=0.05)


class TestUniformization(SamplerContract):
    steps = 2

    def make(self) -> Sampler:
        return Uniformization()


class TestFirstHitting(SamplerContract):
    steps = 2

    def make(self) -> Sampler:
        return FirstHitting()


class TestWithCorrector(KnownKernel):
    def make(self) -> Sampler:
        return WithCorrector(Ancestral(), steps=1, scale=0.3, start=0.5)
