"""Every objective keeps the contract."""

import pytest

from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    Objective,
    PaperElbo,
    Subsampled,
    UniformTimes,
    WeightedTimes,
)
from tauleap.testing.objective import ObjectiveContract

OBJECTIVES = {
    "CompleteElbo()": CompleteElbo(),
    "CompleteElbo(reconstruction=True)": CompleteElbo(reconstruction=True),
    "CompleteElbo(times=WeightedTimes([0.6, 0.2, 0.2], 0.01))": CompleteElbo(times=WeightedTimes([3.0, 1.0, 1.0])),
    "CompleteElbo(times=UniformTimes(0.05, stratified=False))": CompleteElbo(
        times=UniformTimes(0.05, stratified=False)
    ),
    "PaperElbo(passes=1)": PaperElbo(passes=1),
    "PaperElbo(passes=2)": PaperElbo(passes=2),
    "CrossEntropy()": CrossEntropy(),
    'CrossEntropy("mean")': CrossEntropy("mean"),
    "DiscreteTimeElbo(5)": DiscreteTimeElbo(5),
    "PaperElbo(passes=1) + 0.001 * CrossEntropy()": PaperElbo(passes=1) + 0.001 * CrossEntropy(),
    "DiscreteTimeElbo(5) + 0.001 * CrossEntropy()": DiscreteTimeElbo(5) + 0.001 * CrossEntropy(),
    "Subsampled(CompleteElbo(), site_fraction=0.75, samples_per_time=2)": Subsampled(
        CompleteElbo(), site_fraction=0.75, samples_per_time=2
    ),
}


class TestEveryObjective(ObjectiveContract):
    name: str
    objective: Objective

    @pytest.fixture(autouse=True, scope="class", params=OBJECTIVES.items(), ids=OBJECTIVES.keys())
    @classmethod
    def choose(cls, request: pytest.FixtureRequest) -> None:
        cls.name, cls.objective = request.param

    def make(self) -> Objective:
        return self.objective

    def test_repr(self) -> None:
        assert repr(self.objective) == self.name


def test_repr_has_settings_that_are_not_defaults() -> None:
    times = UniformTimes(0.05)
    assert repr(PaperElbo(passes=2, times=times)) == "PaperElbo(passes=2, times=UniformTimes(0.05))"
    assert repr(CrossEntropy("mean", times=times)) == 'CrossEntropy("mean", times=UniformTimes(0.05))'
    assert repr(DiscreteTimeElbo(5, terms="all")) == 'DiscreteTimeElbo(5, terms="all")'
