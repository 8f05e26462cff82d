"""Every process keeps the contract of processes."""

import pytest

from tauleap.noise import ForwardProcess
from tauleap.testing import PROCESSES, Example, ProcessContract


class TestEveryProcess(ProcessContract):
    example: Example

    @pytest.fixture(autouse=True, scope="class", params=PROCESSES, ids=repr)
    @classmethod
    def choose(cls, request: pytest.FixtureRequest) -> None:
        cls.example = request.param
        cls.shape = cls.example.shape or ProcessContract.shape
        cls.reversible = cls.example.reversible
        cls.prior_is_stationary = cls.example.prior_is_stationary

    def make(self) -> ForwardProcess:
        return self.example.make()
