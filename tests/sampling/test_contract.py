"""Every sampler keeps the contract."""

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
)
from tauleap.testing.sampler import SamplerContract


class TestTauLeaping(SamplerContract):
    steps = 100

    def make(self) -> Sampler:
        return TauLeaping()


class TestTauLeapingLast(SamplerContract):
    steps = 60

    def make(self) -> Sampler:
        return TauLeaping("last")


class TestAncestral(SamplerContract):
    def make(self) -> Sampler:
        return Ancestral()


class TestAncestralLookAhead(SamplerContract):
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


class TestWithCorrector(SamplerContract):
    def make(self) -> Sampler:
        return WithCorrector(Ancestral(), steps=1, scale=0.3, start=0.5)
