"""Every objective keeps the contract."""

import pytest

from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    Objective,
    PaperElbo,
    UniformTimes,
    WeightedTimes,
)
from tauleap.testing.objective import ObjectiveContract

OBJECTIVES = (
    CompleteElbo(),
    CompleteElbo(reconstruction=True),
    CompleteElbo(times=WeightedTimes([3.0, 1.0, 1.0])),
    CompleteElbo(times=UniformTimes(0.05, stratified=False)),
    PaperElbo(passes=1),
    PaperElbo(passes=2),
    CrossEntropy(),
    CrossEntropy("mean"),
    DiscreteTimeElbo(5),
    PaperElbo(passes=1) + 0.001 * CrossEntropy(),
    DiscreteTimeElbo(5) + 0.001 * CrossEntropy(),
)


class TestEveryObjective(ObjectiveContract):
    objective: Objective

    @pytest.fixture(autouse=True, scope="class", params=OBJECTIVES, ids=repr)
    @classmethod
    def choose(cls, request: pytest.FixtureRequest) -> None:
        cls.objective = request.param

    def make(self) -> Objective:
        return self.objective

    def test_it_says_what_it_is(self) -> None:
        assert repr(self.objective)
