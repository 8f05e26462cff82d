"""Training on a simulated accelerator: the weights of the CPU, and resuming bit for bit."""

from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from torch import Tensor

import tauleap as tl
from tauleap.training import Result, Run, train


def run_on(device: str, out: Path, made, **options) -> Result:
    return train(made, Run(out, device=device, tensorboard=False, **options), console=Console(quiet=True))


def weights(result: Result) -> dict[str, Tensor]:
    return load_file(result.checkpoint / "model.safetensors")


@pytest.mark.parametrize(
    ("each_sim", "settings"),
    [
        ("float64", {"objective": "complete", "masked": True, "held_out": True}),
        ("float64", {"objective": "paper", "clip": 0.5}),
        ("float64", {"objective": "complete", "time_experts": True}),
        ("no float64", {"objective": "complete", "masked": True, "held_out": True}),
    ],
    indirect=["each_sim"],
)
def test_weights_are_those_of_the_cpu(each_sim: torch.device, tmp_path: Path, recipe, settings: dict) -> None:
    made = recipe(dropout=0.0, steps=4, **settings)
    there, here = (run_on(device, tmp_path / device, made) for device in ("sim", "cpu"))
    ours, theirs = weights(there), weights(here)
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(
            ours[name], weight, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name} {text}"
        )
    assert tl.load(tmp_path / "sim").device == each_sim


def test_a_run_resumes_bit_for_bit(each_sim: torch.device, tmp_path: Path, recipe) -> None:
    """Dropout draws from the generator of the device, whose state a checkpoint holds."""
    whole = run_on("sim", tmp_path / "whole", recipe(steps=6, checkpoint_every=3))
    stopped = run_on("sim", tmp_path / "stopped", recipe(steps=3, checkpoint_every=3))
    torch.manual_seed(99)
    again = run_on("sim", tmp_path / "stopped", recipe(steps=6, checkpoint_every=3))
    assert (stopped.step, again.step) == (3, 6)
    ours, theirs = weights(again), weights(whole)
    for name, weight in theirs.items():
        assert torch.equal(ours[name], weight), name
    states = [torch.load(each.checkpoint / "state.pt", weights_only=True) for each in (again, whole)]
    assert states[0]["rng"].keys() == states[1]["rng"].keys() == {"cpu", "sim"}


@pytest.mark.parametrize("order", [("cpu", "sim"), ("sim", "cpu")])
def test_a_run_resumes_on_another_device(sim: torch.device, tmp_path: Path, recipe, order: tuple[str, str]) -> None:
    first, second = order
    run_on(first, tmp_path / "moved", recipe(dropout=0.0, steps=2))
    moved = run_on(second, tmp_path / "moved", recipe(dropout=0.0, steps=4))
    whole = run_on("cpu", tmp_path / "whole", recipe(dropout=0.0, steps=4))
    ours, theirs = weights(moved), weights(whole)
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, rtol=1e-4, atol=1e-5)


def test_mixed_precision_rounds_on_the_device(sim: torch.device, tmp_path: Path, recipe) -> None:
    exact, mixed = (
        run_on("sim", tmp_path / precision, recipe(dropout=0.0, steps=3, precision=precision))
        for precision in ("32-true", "bf16-mixed")
    )
    rounded, whole = (torch.cat([w.flatten() for w in weights(each).values()]) for each in (mixed, exact))
    assert 0 < (rounded - whole).norm() < 0.05 * whole.norm()
    assert rounded.dtype == torch.float32


def test_what_the_device_cannot_do_is_refused(sim32: torch.device, tmp_path: Path, recipe) -> None:
    with pytest.raises(ValueError, match="precision 64-true needs float64, which sim does not have: write 32-true"):
        run_on("sim", tmp_path / "run", recipe(precision="64-true"))
    for options in ({"devices": 2}, {"strategy": "fsdp"}, {"nodes": 2}):
        with pytest.raises(ValueError, match="devices > 1 and strategy need the device type cpu or cuda, got sim"):
            run_on("sim", tmp_path / "run", recipe(), **options)
    assert not any(tmp_path.iterdir())
