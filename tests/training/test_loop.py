"""The training loop: work between the steps, and when a run must stop or not be resumed."""

import csv
import dataclasses
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console

import tauleap as tl
from tauleap.objective import CompleteElbo, CrossEntropy, Loss, Objective, PaperElbo, Subsampled
from tauleap.training import Batch, NonFiniteError, Run, train
from tauleap.training.recipe import differences


def quiet() -> Console:
    return Console(file=io.StringIO())


def run(out: Path, **options) -> Run:
    return Run(out=out, device="cpu", tensorboard=False, **options)


def weights(folder: Path) -> bytes:
    return (folder / "latest" / "model.safetensors").read_bytes()


def test_a_run_and_what_it_leaves(recipe, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    result = train(recipe(steps=25, held_out=True, validate_every=10), run(tmp_path), console=quiet())
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers are his own"
    assert (result.step, result.stopped, result.first) == (25, "finished", True)
    assert result.checkpoint == tmp_path / "step-00000025"
    assert sorted(path.name for path in result.checkpoint.iterdir()) == [
        "config.json",
        "manifest.json",
        "model.safetensors",
        "recipe.json",
        "state.pt",
    ]
    with (tmp_path / "train.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [10, 20, 25]
    assert set(rows[0]) == {"step", "loss", "prior", "path", "gradient_norm", "lr", "steps_per_second"}
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert float(rows[0]["lr"]) == 1e-2
    with (tmp_path / "validation.csv").open() as file:
        validated = list(csv.DictReader(file))
    assert [int(row["step"]) for row in validated] == [10, 20, 25]
    assert float(validated[-1]["bits_per_dim"]) < float(validated[0]["bits_per_dim"])
    kept = json.loads((result.checkpoint / "recipe.json").read_text())
    assert kept["recipe"]["settings"]["seed"] == 0
    assert kept["versions"]["torch"] == torch.__version__


def test_the_published_weights_are_the_average(recipe, tmp_path: Path) -> None:
    result = train(recipe(steps=12), run(tmp_path), console=quiet())
    state = torch.load(result.checkpoint / "state.pt", weights_only=True)
    model = tl.load(tmp_path)
    for name, average in model.denoiser.network.state_dict().items():
        assert average.shape == state["weights"][name].shape
    assert any(not torch.equal(a, state["weights"][n]) for n, a in model.denoiser.network.state_dict().items())
    assert state["position"] == {"epoch": 12 * 8 // 70, "row": 12 * 8 % 70}
    assert state["rng"]["cpu"].shape[0] == 1
    assert not model.reverse.training


def test_interrupted_anywhere_it_is_the_same_run(recipe, tmp_path: Path) -> None:
    """Stopped at steps that are not those of a log or a checkpoint."""
    train(recipe(steps=30), run(tmp_path / "whole"), console=quiet())
    for steps in (7, 7, 13, 30):
        train(recipe(steps=steps), run(tmp_path / "parts"), console=quiet())
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_seeds_matter(recipe, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(recipe(steps=6, seed=seed), run(tmp_path / name), console=quiet())
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


def test_dropout_is_drawn_anew_at_every_step(recipe, tmp_path: Path) -> None:
    for name, dropout in (("with", 0.5), ("without", 0.0)):
        made = recipe(steps=4, dropout=dropout)
        train(dataclasses.replace(made), run(tmp_path / name), console=quiet())
    assert weights(tmp_path / "with") != weights(tmp_path / "without")


@pytest.mark.parametrize("objective", [CompleteElbo(), PaperElbo(passes=2) + 0.001 * CrossEntropy()])
def test_pieces_give_the_gradient_of_the_whole(recipe, tmp_path: Path, objective: Objective) -> None:
    for accumulate in (1, 2, 4):
        made = dataclasses.replace(recipe(steps=3, dropout=0.0), objective=objective)
        train(made, run(tmp_path / str(accumulate), accumulate=accumulate), console=quiet())
    whole = tl.load(tmp_path / "1").denoiser.network.state_dict()
    for accumulate in (2, 4):
        pieces = tl.load(tmp_path / str(accumulate)).denoiser.network.state_dict()
        for name, weight in whole.items():
            torch.testing.assert_close(pieces[name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 0.02}, "settings.lr: 0.01 -> 0.02"),
        ({"batch_size": 16}, "settings.batch_size: 8 -> 16"),
        ({"seed": 3}, "settings.seed: 0 -> 3"),
    ],
)
def test_another_recipe_is_refused_with_the_difference(recipe, tmp_path: Path, changes: dict, message: str) -> None:
    train(recipe(steps=2), run(tmp_path), console=quiet())
    before = weights(tmp_path)
    with pytest.raises(ValueError, match="holds a run of another recipe") as refusal:
        train(recipe(steps=4, **changes), run(tmp_path), console=quiet())
    assert message in str(refusal.value)
    assert str(refusal.value).count("->") == 1
    assert weights(tmp_path) == before


def test_another_network_is_refused_and_another_dropout_resumes(recipe, tmp_path: Path) -> None:
    train(recipe(steps=2), run(tmp_path), console=quiet())
    with pytest.raises(ValueError, match=r"model\.denoiser\.network\.class: "):
        train(recipe(steps=4, time_experts=True), run(tmp_path), console=quiet())
    assert train(recipe(steps=4, dropout=0.2), run(tmp_path), console=quiet()).step == 4


def test_another_objective_or_other_data_are_another_recipe(recipe, tmp_path: Path) -> None:
    train(recipe(steps=1), run(tmp_path), console=quiet())
    other = dataclasses.replace(recipe(steps=2), objective=CompleteElbo(reconstruction=True))
    with pytest.raises(ValueError, match=r"objective\.reconstruction: false -> true"):
        train(other, run(tmp_path), console=quiet())
    data, _ = recipe().data()
    moved = dataclasses.replace(data, x=data.x.flip(0))
    with pytest.raises(ValueError, match=r"data\.sha256"):
        train(dataclasses.replace(recipe(), data=lambda: (moved, None)), run(tmp_path), console=quiet())


def test_differences_are_named_whole() -> None:
    assert differences({"settings": {"lr": 1, "steps": 3}}, {"settings": {"lr": 1, "steps": 9}}) == []
    assert differences({"model": {"network": {"dropout": 0.0}}}, {"model": {"network": {"dropout": 0.4}}}) == []
    assert differences({"a": {"b": 1}}, {"a": {"c": 1}}) == ["a.b: 1 -> (nothing)", "a.c: (nothing) -> 1"]


class Exploding(Objective):
    """Fine for a while, then not a number."""

    def __init__(self) -> None:
        self.calls = 0

    def evaluate(self, draw) -> Loss:
        self.calls += 1
        loss = CompleteElbo().evaluate(draw)
        return loss.scaled(math.nan if self.calls == 8 else 1.0)


def test_a_loss_that_is_not_a_number(recipe, tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError) as stopped:
        train(dataclasses.replace(recipe(), objective=Exploding()), run(tmp_path), console=quiet())
    message = str(stopped.value)
    assert "the loss of step 8 is not finite: loss nan, prior nan, path nan" in message
    assert f"the last good checkpoint is {tmp_path / 'step-00000005'}" in message
    assert tl.load(tmp_path).shape == (3,)


def test_weights_that_are_not_numbers_are_not_saved(recipe, tmp_path: Path) -> None:
    """An infinite learning rate breaks the weights after the last finite loss, just before a checkpoint."""
    with pytest.raises(NonFiniteError, match=r"a weight is not finite after step 1.*step-00000000"):
        train(recipe(lr=1e38, warmup=0, checkpoint_every=1), run(tmp_path), console=quiet())


def test_a_limit_of_time(recipe, tmp_path: Path) -> None:
    result = train(recipe(steps=10**9), run(tmp_path, minutes=0.005), console=quiet())
    assert result.stopped == "minutes"
    assert 0 < result.step < 10**6
    assert result.checkpoint == tmp_path / f"step-{result.step:08d}"


def test_a_damaged_checkpoint_loses_only_its_own_steps(recipe, tmp_path: Path) -> None:
    train(recipe(steps=20), run(tmp_path / "whole"), console=quiet())
    train(recipe(steps=15), run(tmp_path / "hurt"), console=quiet())
    path = tmp_path / "hurt" / "step-00000015" / "state.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    console = quiet()
    train(recipe(steps=20), run(tmp_path / "hurt"), console=console)
    message = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "step-00000015 is damaged: state.pt has another checksum than in manifest.json" in message
    assert "resuming from the previous checkpoint" in message
    assert weights(tmp_path / "hurt") == weights(tmp_path / "whole")


def test_samples_are_drawn(recipe, tmp_path: Path) -> None:
    seen = []

    def picture(samples: torch.Tensor):
        seen.append(samples)
        return (samples * 60).to(torch.uint8).numpy()

    made = dataclasses.replace(recipe(steps=4, sample_every=2, samples=10), picture=picture)
    train(made, run(tmp_path), console=quiet())
    assert [tuple(samples.shape) for samples in seen] == [(10, 3), (10, 3)]
    assert all(0 <= int(samples.min()) <= int(samples.max()) < 5 for samples in seen)
    with Image.open(tmp_path / "samples" / "step-00000004.png") as image:
        assert image.size == (3, 10)


def test_rows_are_prepared(recipe, tmp_path: Path) -> None:
    """Given sites have no loss: with all but one given, the loss is that of one site."""

    def prepare(batch: Batch, generator: torch.Generator) -> Batch:
        mask = torch.tensor([True, True, False])
        return dataclasses.replace(batch, observed=tl.Observed(mask, batch.x0))

    losses = {}
    for name, prepared in (("all", None), ("one", prepare)):
        train(dataclasses.replace(recipe(steps=10), prepare=prepared), run(tmp_path / name), console=quiet())
        with (tmp_path / name / "train.csv").open() as file:
            losses[name] = float(next(csv.DictReader(file))["loss"])
    assert 0.2 < losses["one"] / losses["all"] < 0.5


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_precision(recipe, tmp_path: Path, precision: str) -> None:
    for steps in (6, 12):
        train(recipe(steps=steps, precision=precision), run(tmp_path / "a"), console=quiet())
    train(recipe(steps=12, precision=precision), run(tmp_path / "b"), console=quiet())
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    dtype = next(tl.load(tmp_path / "a").denoiser.parameters()).dtype
    assert dtype == (torch.float64 if precision == "64-true" else torch.float32)


def test_a_batch_that_cannot_be_cut(recipe, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_size must be a multiple of 3"):
        train(recipe(), run(tmp_path, accumulate=3), console=quiet())


def test_samples_that_share_a_time_stay_together(recipe, tmp_path: Path) -> None:
    size = recipe().settings.batch_size
    shared = replace(recipe(), objective=Subsampled(CompleteElbo(), samples_per_time=size))
    with pytest.raises(
        ValueError,
        match=f"is {size}, which must divide the {size // 4} samples per device and accumulation step: write",
    ):
        train(shared, run(tmp_path, accumulate=4), console=quiet())


def test_weights_outside_the_network_are_refused(recipe, tmp_path: Path) -> None:
    def model() -> tl.Model:
        made = recipe().model()
        made.denoiser.scale = torch.nn.Parameter(torch.ones(()))
        return made

    with pytest.raises(ValueError, match=r"denoiser\.scale"):
        train(dataclasses.replace(recipe(), model=model), run(tmp_path), console=quiet())


@pytest.mark.parametrize("changes", [{"batch_size": 0}, {"lr": -1.0}, {"clip": 0.0}, {"steps": -1}, {"log_every": 0}])
def test_settings_that_cannot_be(recipe, changes: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        recipe(**changes)
