"""Small networks of every kind, with a batch that each can take."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jaxtyping
import pytest
import torch
from torch import Tensor

from tauleap.network import MusicTransformer, Network, ResidualMLP, SequenceTransformer, UNet

SMALL_MUSIC = {"width": 16, "heads": 2, "hidden": 32, "depth": 2, "time_size": 16, "time_hidden": 16, "time_width": 16}


@dataclass(frozen=True)
class Case:
    build: Callable[..., Network]
    arguments: dict[str, Any]
    num_states: int
    shape: tuple[int, ...]
    outputs: int

    def network(self, **changes: Any) -> Network:
        torch.manual_seed(0)
        return self.build(**{**self.arguments, **changes})

    def stirred(self, **changes: Any) -> Network:
        """In float64 for evaluation, with no parameter left at an initial value that hides what depends on what."""
        network = self.network(**changes).double().eval()
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        return network

    def x(self, batch: int = 3) -> Tensor:
        return torch.randint(self.num_states, (batch, *self.shape), generator=torch.Generator().manual_seed(1))


CASES = {
    "mlp": Case(ResidualMLP, {"num_states": 7, "shape": (2, 3), "mark_observed": True}, 7, (2, 3), 7),
    "mlp_one_hot": Case(
        ResidualMLP, {"num_states": 5, "shape": (4,), "one_hot": True, "mark_observed": True}, 5, (4,), 5
    ),
    "music": Case(MusicTransformer, {"num_states": 9, **SMALL_MUSIC, "mark_observed": True}, 9, (6,), 9),
    "sequence": Case(SequenceTransformer, {"num_states": 5, "width": 16, "depth": 2, "heads": 2}, 5, (7,), 5),
    "table": Case(
        SequenceTransformer,
        {"num_states": 5, "shape": (2, 3), "width": 16, "depth": 2, "heads": 2, "dropout": 0.1, "num_classes": 3},
        5,
        (2, 3),
        5,
    ),
    "unet": Case(
        UNet,
        {"num_states": 17, "image_channels": 2, "width": 8, "multipliers": (1, 2), "depth": 1, "mark_observed": True},
        17,
        (2, 4, 4),
        2,
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def as_users_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the type checks of the test run, so that the networks' own errors are seen."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def all_cases() -> dict[str, Case]:
    return CASES
