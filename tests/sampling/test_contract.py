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
    Planned,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    uniform_grid,
)
from tauleap.testing.laws import push
from tauleap.testing.sampler import END, EXAMPLES, SamplerContract


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


class TestWithGibbsCorrector(KnownKernel):
    """Both sites are redrawn, so that the law with a known site is that of the formula, too."""

    examples = tuple(example for example in EXAMPLES if example.name != "one-way")

    def make(self) -> Sampler:
        return WithCorrector(Ancestral(), steps=1, start=0.5, kind="gibbs", sites=2)


class TestPlanned(SamplerContract):
    steps = 3

    def make(self) -> Sampler:
        return Planned()

    def expected(self, process: ForwardProcess, shape: tuple[int, ...], law: Tensor) -> tuple[Tensor, Tensor]:
        """Of two sites round(2 x 0.26) = 1 is masked at the end; one alone, round(0.26) = 0, is drawn exactly."""
        start = push(law, site_kernels(process, shape, 1.0))
        reverse = ReverseProcess(process, ExactDenoiser(law, process))
        return pushforward_grid(self.make(), reverse, start, uniform_grid(self.steps, end=END)), law


class TestPlannedByEntropy(TestPlanned):
    def make(self) -> Sampler:
        return Planned("entropy", bound=0.3)
