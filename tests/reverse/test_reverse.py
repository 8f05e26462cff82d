"""Every process is reversed rightly."""

import pytest

from tauleap.noise import ForwardProcess
from tauleap.testing import PROCESSES, Example, ReverseContract


class TestEveryReversal(ReverseContract):
    example: Example

    @pytest.fixture(autouse=True, scope="class", params=PROCESSES, ids=repr)
    @classmethod
    def choose(cls, request: pytest.FixtureRequest) -> None:
        cls.example = request.param
        cls.fixed_shape = cls.example.shape

    def make(self) -> ForwardProcess:
        return self.example.make()
