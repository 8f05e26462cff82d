"""What one optimizer step is: warm-up, clipping, the average that is published, labels, compiling."""

import csv
import dataclasses
import io
import math
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from rich.console import Console

import tauleap as tl
from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser
from tauleap.model import Model
from tauleap.network import SequenceTransformer
from tauleap.noise import LogLinear, Uniform
from tauleap.training import Recipe, Run, train
from tauleap.training.engine import Engine


def trained(recipe: Recipe, out: Path, **options) -> Path:
    run = Run(out=out, device="cpu", tensorboard=False, **options)
    return train(recipe, run, console=Console(file=io.StringIO())).checkpoint


def test_the_learning_rate_grows_linearly_and_stays(recipe, tmp_path: Path) -> None:
    trained(recipe(steps=8, warmup=5, lr=1e-2, log_every=1), tmp_path)
    with (tmp_path / "train.csv").open() as file:
        rates = [float(row["lr"]) for row in csv.DictReader(file)]
    assert rates == pytest.approx([2e-3, 4e-3, 6e-3, 8e-3, 1e-2, 1e-2, 1e-2, 1e-2], rel=1e-12)


def test_the_learning_rate_falls_along_half_a_cosine_to_a_hundredth(recipe, tmp_path: Path) -> None:
    trained(recipe(steps=8, warmup=2, decay=6, lr=1e-2, log_every=1), tmp_path)
    with (tmp_path / "train.csv").open() as file:
        rates = [float(row["lr"]) for row in csv.DictReader(file)]
    falling = [0.01 + 0.99 * (1 + math.cos(math.pi * share / 4)) / 2 for share in range(5)]
    assert rates == pytest.approx([5e-3, 1e-2, *(1e-2 * share for share in falling), 1e-4], rel=1e-12)


def test_a_learning_rate_cannot_fall_while_it_grows(recipe) -> None:
    with pytest.raises(ValueError, match="decay must be > warmup, which is 5 steps, got 5"):
        recipe(warmup=5, decay=5)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_gradient_is_scaled_down_to_its_largest_norm(recipe, tmp_path: Path, precision: str) -> None:
    """By our own way for one device in full precision, and by Fabric's elsewhere."""
    made = recipe(dropout=0.0, precision=precision)
    fabric = Run(out=tmp_path, device="cpu").launch(precision)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        engine = Engine(fabric, made, made.model(), made.data()[0])
        for parameter in engine.network.parameters():
            torch.nn.init.normal_(parameter, std=0.3)

        def gradient() -> torch.Tensor:
            return torch.cat([parameter.grad.flatten() for parameter in engine.network.parameters()])

        engine.backward(0)
    before = gradient()
    norm = engine._clip(0.5)
    torch.testing.assert_close(norm, before.norm(), rtol=1e-5, atol=0.0)
    assert norm > 1
    torch.testing.assert_close(gradient(), before * 0.5 / norm, rtol=1e-4, atol=1e-8)
    engine._clip(100.0)  # short enough already
    torch.testing.assert_close(gradient(), before * 0.5 / norm, rtol=1e-4, atol=1e-8)


def test_the_gradient_of_16_mixed_is_unscaled_before_it_is_clipped(recipe) -> None:
    """With the scaler of CUDA, which works on the CPU as well; the step is that of 32-true up to rounding."""
    scaled = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))
    steps, norms = [], []
    for precision, plugins in (("32-true", []), ("16-mixed", [scaled])):
        made = recipe(dropout=0.0, clip=0.5, precision=precision)
        fabric = Fabric(accelerator="cpu", devices=1, plugins=plugins)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            engine = Engine(fabric, made, made.model(), made.data()[0])
            for parameter in engine.network.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
            before = torch.cat([parameter.detach().flatten() for parameter in engine.network.parameters()])
            norms.append(engine.step(0)["gradient_norm"])
        after = torch.cat([parameter.detach().flatten() for parameter in engine.network.parameters()])
        steps.append(after - before)
    torch.testing.assert_close(norms[1], norms[0], rtol=0.02, atol=0.0)
    assert torch.cosine_similarity(steps[0], steps[1], dim=0) > 0.9


def test_the_published_weights_are_the_ramped_average_of_the_raw_ones(recipe, tmp_path: Path) -> None:
    """Worked out again in float64 from the raw weights of every step."""
    steps, decay = 12, 0.5  # which the ramp (1 + n) / (10 + n) reaches at n = 8
    trained(recipe(steps=steps, checkpoint_every=1, ema=decay), tmp_path, keep=100)

    def raw(step: int) -> dict[str, torch.Tensor]:
        state = torch.load(tmp_path / f"step-{step:08d}" / "state.pt", weights_only=True)
        return {name: value.double() for name, value in state["weights"].items()}

    average = raw(0)
    for n in range(1, steps + 1):
        d = min(decay, (1 + n) / (10 + n))
        average = {name: d * average[name] + (1 - d) * weight for name, weight in raw(n).items()}
    published = tl.load(tmp_path).denoiser.network.state_dict()
    for name, expected in average.items():
        torch.testing.assert_close(published[name].double(), expected, rtol=1e-5, atol=1e-7)


def test_labels_are_learnt(recipe, tmp_path: Path) -> None:
    """Rows that equal their label: conditioned on it, the model predicts the row from pure noise."""
    labels = torch.arange(60) % 3
    data = Dataset(labels[:, None].expand(60, 4).contiguous(), num_states=3, condition=labels)

    def model() -> Model:
        network = SequenceTransformer(3, (4,), width=16, depth=1, heads=2, num_classes=3)
        return Model(Uniform(3, LogLinear()), NetworkDenoiser(network), shape=(4,))

    made = recipe(steps=150, batch_size=12, checkpoint_every=1000)
    made = dataclasses.replace(made, data=lambda: (data, data), model=model)
    learnt = tl.load(trained(made, tmp_path))
    x = torch.randint(3, (3, 4), generator=torch.Generator().manual_seed(0))
    conditional = learnt.reverse.posterior(x, 0.999, condition=torch.arange(3)).logits.softmax(-1)
    assert (conditional.amax(-1) > 0.9).all()
    assert torch.equal(conditional.argmax(-1), torch.arange(3)[:, None].expand(3, 4))


def test_a_compiled_network_trains_the_same_weights(nursery, tmp_path: Path) -> None:
    """Traced but not rewritten, it gives the same bits; its run resumes uncompiled, and its files have plain names."""
    for name, run in (("plain", {}), ("compiled", {"compile": True})):
        order = {"settings": {"steps": 6}, "run": run, "backend": "eager"}
        assert nursery.live(tmp_path / name, **order) == [0], (tmp_path / f"{name}.txt").read_text()
    assert nursery.live(tmp_path / "compiled", settings={"steps": 9}) == [0]
    assert nursery.live(tmp_path / "plain", settings={"steps": 9}) == [0]
    for step in (6, 9):
        name = f"step-{step:08d}"
        plain, compiled = (tmp_path / run / name / "model.safetensors" for run in ("plain", "compiled"))
        assert plain.read_bytes() == compiled.read_bytes()
