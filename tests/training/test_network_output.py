"""A network whose output has another shape is refused before training writes anything."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser
from tauleap.model import Model
from tauleap.noise import LogLinear, Uniform
from tauleap.objective import CompleteElbo
from tauleap.training import Recipe, Run, Settings, train


class Given(nn.Module):
    """Returns numbers for sites (4,) in a shape of its own."""

    def __init__(self, kind: str = "right") -> None:
        super().__init__()
        self.kind = kind
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        states = {"few": 2, "many": 9}.get(self.kind, 3)
        out = self.scale * torch.ones(*x.shape, states)
        return {"flat": out.flatten(1), "no axis": out[..., 0]}.get(self.kind, out)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("few", r"\(B, \*shape, S\) = \(2, 4, 3\), got \(2, 4, 2\)"),
        ("many", r"\(B, \*shape, S\) = \(2, 4, 3\), got \(2, 4, 9\)"),
        ("flat", r"\(B, \*shape, S\) = \(2, 4, S\), got \(2, 12\)"),
        ("no axis", r"\(B, \*shape, S\) = \(2, 4, S\), got \(2, 4\)"),
    ],
)
def test_wrong_shapes_are_refused(tmp_path: Path, kind: str, message: str) -> None:
    data = Dataset(torch.arange(80).reshape(20, 4) % 3, num_states=3)

    def model() -> Model:
        return Model(Uniform(3, LogLinear()), NetworkDenoiser(Given(kind)), shape=(4,))

    made = Recipe("wrong", lambda: (data, None), model, CompleteElbo(), Settings(steps=2, batch_size=4, lr=0.1))
    with pytest.raises(ValueError, match=message):
        train(made, Run(tmp_path / "run", device="cpu", tensorboard=False))
    assert not any(tmp_path.iterdir())


def test_settings_that_do_not_fit_the_devices_write_nothing(tmp_path: Path, recipe) -> None:
    run = Run(tmp_path / "run", device="cpu", accumulate=3, tensorboard=False)
    with pytest.raises(ValueError, match="multiple of 3"):
        train(recipe(batch_size=8), run)
    assert not any(tmp_path.iterdir())
