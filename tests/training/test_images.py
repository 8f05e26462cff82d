"""The recipes of images: the paper's settings, and that their pieces train on real files."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap import _device
from tauleap._seeds import derive_seed
from tauleap.data import Dataset
from tauleap.data.image.format import ImageFormat
from tauleap.denoise import Denoiser, NetworkDenoiser, TruncatedLogistic
from tauleap.network import TimeExperts, UNet
from tauleap.noise import ForwardProcess
from tauleap.objective import CompleteElbo, Objective, UniformTimes
from tauleap.recipes import cifar10, mnist
from tauleap.recipes.images import (
    absorbing_noise,
    discrete_time,
    gaussian_noise,
    one_pass,
    published_denoiser,
    published_sampler,
    published_settings,
    sheet,
    small_denoiser,
    small_masked_denoiser,
    small_settings,
)
from tauleap.sampling import TauLeaping, WithCorrector
from tauleap.training import Run, train
from tauleap.training.augment import LabelDropout, flip_left_right


def weights(build) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build().parameters())


def test_the_papers_settings() -> None:
    noise = gaussian_noise()
    assert (noise.num_states, noise.sigma_0, noise.sigma_r) == (256, 512.0, 6.0)
    assert float(noise.schedule.rate(0.5)) == pytest.approx(3 * 10 * np.log(100))
    assert weights(published_denoiser) == pytest.approx(35.7e6, rel=0.01)
    settings = published_settings()
    assert (settings.batch_size, settings.lr, settings.warmup, settings.ema, settings.clip, settings.steps) == (
        *(128, 2e-4, 5000),
        *(0.9999, 1.0, 2_000_000),
    )
    assert repr(one_pass()) == "PaperElbo(passes=1) + 0.001 * CrossEntropy()"
    hybrid = "DiscreteTimeElbo(256) + 0.001 * CrossEntropy()"
    assert repr(discrete_time(256)) == f"Subsampled({hybrid}, site_fraction=0.125, samples_per_time=8)"
    assert isinstance(published_sampler(), TauLeaping)
    corrected = published_sampler(10)
    assert isinstance(corrected, WithCorrector)
    assert (corrected.steps, corrected.scale, corrected.start) == (10, 1.5, 0.1)


def saved(path: Path, shape: tuple[int, ...]) -> Path:
    draw = np.random.default_rng(0)
    arrays = {f"x_{part}": draw.integers(256, size=(6, *shape), dtype=np.uint8) for part in ("train", "test")}
    np.savez(path, **arrays, y_train=np.arange(6), y_test=np.arange(6))
    return path


def test_cifar10_is_the_published_run_on_the_files_images(tmp_path: Path) -> None:
    path = saved(tmp_path / "cifar.npz", (32, 32, 3))
    recipe = cifar10(path)
    assert recipe.settings == published_settings()
    assert recipe.prepare is flip_left_right
    assert repr(recipe.objective) == repr(one_pass())
    train_rows, test_rows = recipe.data()
    assert train_rows.shape == test_rows.shape == (3, 32, 32)
    assert train_rows.condition is None
    with np.load(path) as arrays:
        assert torch.equal(train_rows.x, torch.from_numpy(arrays["x_train"]).movedim(-1, 1))
    with torch.device("meta"):
        network = recipe.model().denoiser.network
    assert (network.config["dropout"], network.config["outputs"]) == (0.1, 2)
    assert repr(cifar10(path, objective=CompleteElbo()).objective) == "CompleteElbo()"


def pictures(rows: int) -> Dataset:
    draws = torch.randint(256, (rows, 1, 28, 28), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Dataset(draws, 256)


SIZES = {"width": 4, "multipliers": (1, 1), "depth": 1, "attention_levels": (), "mark_observed": True}


def tiny(masked: bool) -> Denoiser:
    if masked:
        return NetworkDenoiser(UNet(257, 1, **SIZES, outputs=257, output_kernel=1, masked=True))
    return TruncatedLogistic(UNet(256, 1, **SIZES), 256)


@pytest.mark.parametrize(
    ("process", "objective"),
    [
        (gaussian_noise(), CompleteElbo()),
        (gaussian_noise(), one_pass()),
        (gaussian_noise(), discrete_time(16)),
        (absorbing_noise(), discrete_time(16)),
    ],
)
def test_every_model_trains(process: ForwardProcess, objective: Objective, tmp_path: Path) -> None:
    recipe = mnist(
        lambda: (pictures(8), None),
        process=process,
        objective=objective,
        denoiser=lambda: tiny(process.num_states == 257),
        settings=replace(small_settings(300), batch_size=8, steps=2),
    )
    done = train(replace(recipe, picture=None), Run(tmp_path, tensorboard=False))
    assert done.stopped == "finished"
    assert recipe.model().form == ImageFormat(1, 28, 28)


def test_a_class_conditional_model(tmp_path: Path) -> None:
    def denoiser() -> Denoiser:
        return TruncatedLogistic(UNet(256, 1, **SIZES, num_classes=10), 256)

    data = replace(pictures(8), condition=torch.arange(8))
    recipe = mnist(
        lambda: (data, pictures(2)),
        denoiser=denoiser,
        settings=replace(small_settings(300), batch_size=8, steps=3, lr=0.1, warmup=0, validate_every=3),
        labels=True,
    )
    assert recipe.prepare == LabelDropout(10)
    done = train(replace(recipe, picture=None), Run(tmp_path / "run", tensorboard=False))
    model = tl.load(done.checkpoint)
    assert bool((model.denoiser.network.classes.weight != 0).any())
    x, t = torch.zeros(2, 1, 28, 28, dtype=torch.int64), 0.5
    labels = torch.tensor([3, 3])
    conditional, unconditional = (model.reverse.posterior(x, t, condition=c).logits for c in (labels, None))
    assert not torch.equal(conditional, unconditional)
    path = saved(tmp_path / "digits.npz", (28, 28))
    for labels, has_labels in ((True, True), (False, False), (None, True)):
        kept, held_out = mnist(path, labels=labels).data()
        assert (kept.condition is not None) == has_labels
        assert held_out.condition is None  # bits/dim of pictures alone
    assert mnist(path, denoiser=small_denoiser).data()[0].condition is None  # its network does not take labels
    with np.load(path) as arrays:
        np.savez(tmp_path / "bare.npz", x_train=arrays["x_train"], x_test=arrays["x_test"])
    with pytest.raises(ValueError, match=r"bare.npz has no class labels \(y_train\)"):
        mnist(tmp_path / "bare.npz").data()


def test_mnist_holds_out_images_of_those_to_train_with(tmp_path: Path) -> None:
    train_rows, held_out = mnist(saved(tmp_path / "digits.npz", (28, 28))).data()
    assert (len(train_rows), len(held_out)) == (3, 3)
    with np.load(tmp_path / "digits.npz") as arrays:
        expected = {row.tobytes() for row in arrays["x_train"]}
    assert {row.numpy().tobytes() for row in torch.cat([train_rows.x, held_out.x])} == expected


def test_the_small_networks_are_small() -> None:
    assert weights(small_denoiser) == 2_253_608
    assert weights(partial(small_denoiser, labels=True)) == 2_253_608 + 11 * 192
    assert weights(small_masked_denoiser) < 2_400_000


def test_time_experts_train_together(tmp_path: Path) -> None:
    """A batch has times of both, and both learn."""

    def denoiser() -> Denoiser:
        return TruncatedLogistic(TimeExperts([UNet(256, 1, **SIZES) for _ in range(2)], at=[0.3]), 256)

    recipe = mnist(
        lambda: (pictures(8), None),
        objective=CompleteElbo(times=UniformTimes(0.01)),
        denoiser=denoiser,
        settings=replace(small_settings(300), batch_size=8, steps=2, lr=0.1, warmup=0, ema=0.0),
    )
    done = train(replace(recipe, picture=None), Run(tmp_path, tensorboard=False))
    _device.seed_defaults(_device.CPU, derive_seed(recipe.settings.seed, "weights"))
    before = recipe.model().denoiser.network  # as it was before the first step
    after = tl.load(done.checkpoint).denoiser.network
    for one, other in zip(before.networks, after.networks, strict=True):
        assert all(not torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def test_a_sheet_has_every_image_in_its_place() -> None:
    images = torch.arange(3)[:, None, None, None].expand(3, 1, 2, 2)
    assert sheet(images).tolist() == [
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0],
        [2, 2, 0, 0, 0, 0],
        [2, 2, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert sheet(torch.zeros(4, 3, 5, 5, dtype=torch.int64)).shape == (12, 12, 3)
