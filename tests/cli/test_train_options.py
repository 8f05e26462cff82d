"""``tauleap train FILE`` with the options of training: what they change, how a run resumes, and two processes."""

import csv
import json
import os
import random
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from safetensors.torch import load_file

import tauleap as tl
from tauleap import _memory, cli
from tauleap.choose import NETWORKS, OBJECTIVES, PROCESSES
from tauleap.choose.networks import choose_network
from tauleap.cli.commands.train import Train
from tauleap.data import Dataset

SCRIPT = Path(sysconfig.get_path("scripts")) / "tauleap"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draw = random.Random(0)
    rows = [(x, x, draw.choice("uvw")) for x in draw.choices("xyz", k=300)]
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "c"), *rows])
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(random.Random(0).choices(["ab ", "ba ", "abba "], k=2000)))
    return path


def test_the_names_of_the_command_line_are_those_that_exist() -> None:
    hints = get_type_hints(Train)
    for field, names in (("process", PROCESSES), ("network", NETWORKS), ("objective", OBJECTIVES)):
        assert get_args(get_args(hints[field])[0]) == names


def test_options_arrive_and_are_recorded(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    flags = "--process uniform --network sequence-transformer --width 16 --depth 1 --objective paper --batch-size 8"
    flags += " --lr 0.01 --precision bf16-mixed --accumulate 2 --checkpoint-every 2 --keep 2 --device cpu"
    words = ["train", str(table), "--out", str(out), *flags.split()]
    assert cli.main([*words, "--steps", "5"]) == 0
    printed = capsys.readouterr().out
    lines = [
        "noise: uniform, as given",
        "network: a transformer of width 16 (as given) and depth 1 (as given), as given",
        "objective: paper, as given",
        "training: batches of 8 rows (as given), learning rate 0.01 (as given), precision bf16-mixed (as given)",
    ]
    assert "\n".join(lines) in printed
    model = tl.load(out)
    assert model.about["choice"] == lines
    assert model.about["given"] == {
        "process": "uniform",
        "network": "sequence-transformer",
        "width": 16,
        "depth": 1,
        "objective": "paper",
        "batch_size": 8,
        "lr": 0.01,
        "precision": "bf16-mixed",
    }
    assert sorted(path.name for path in out.glob("step-*")) == ["step-00000004", "step-00000005"]
    recipe = json.loads((out / "latest" / "recipe.json").read_text())["recipe"]
    assert recipe["settings"]["checkpoint_every"] == 2

    assert cli.main([*words, "--steps", "6"]) == 0
    assert "step 5 of 6" in capsys.readouterr().out
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    for other, difference in (
        (["--lr", "0.02"], "settings.lr: 0.01 -> 0.02"),
        (["--width", "32"], "model.denoiser.network.width: 16 -> 32"),
        (["--objective", "complete"], "objective.class"),
        (["--process", "absorbing"], "model.process.class"),
    ):
        assert cli.main([*words, "--steps", "7", *other]) == 2
        error = capsys.readouterr().err
        assert "holds a run of another recipe" in error
        assert difference in error
        assert error.count("\n") == 1
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"depth": 10**6}, "depth must be <= 1,000, got 1,000,000"),
        ({"width": 99_999_999}, "width must be <= 65,536, got 99,999,999"),
        ({"width": 2**16, "depth": 900}, r"has [\d,]+ weights and needs [\d,]+ GB in training, .* a smaller width"),
    ],
)
@pytest.mark.parametrize("network", NETWORKS)
def test_sizes_that_do_not_fit_into_memory_are_refused(
    network: str, sizes: dict[str, int], message: str, tmp_path: Path
) -> None:
    rows = torch.zeros(4, 16, 16, dtype=torch.int64) if network == "unet" else torch.zeros(4, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        tl.fit(rows, num_states=4, network=network, steps=1, out=tmp_path / "run", progress=False, **sizes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_are_counted_before_a_network_is_built(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, sizes = (16, 16) if network == "unet" else (8,), {"width": 16, "depth": 3}
    data = Dataset(torch.zeros(4, *shape, dtype=torch.int64), num_states=4)
    noise = tl.noise.Absorbing(5, tl.noise.LogLinear())
    plan = choose_network(network, data, noise, ordinal=True, minutes=1.0, **sizes)
    number = sum(weight.numel() for weight in plan.build().parameters())
    monkeypatch.setattr(_memory, "total_memory", lambda _: 20 * number)
    choose_network(network, data, noise, ordinal=True, minutes=1.0, **sizes)
    monkeypatch.setattr(_memory, "total_memory", lambda _: 20 * number - 1)
    with pytest.raises(ValueError, match=f"has {number:,} weights"):
        choose_network(network, data, noise, ordinal=True, minutes=1.0, **sizes)


def test_a_seed_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 2\*\*63 - 1, got 1180591620717411303424"):
        tl.fit(torch.zeros(4, 2, dtype=torch.int64), num_states=2, steps=1, seed=2**70, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"from 0 to 2\*\*63 - 1"):
        tl.load("toy", device="cpu").sample(2, seed=2**70)
    assert not (tmp_path / "run").exists()


def test_without_a_folder_several_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="2 processes need one folder for their run: write out="):
        tl.fit(torch.zeros(4, 2, dtype=torch.int64), num_states=2, steps=1, devices=2, progress=False)


def trained(arguments: Sequence[object]) -> str:
    command = [SCRIPT, "train", *map(str, arguments), "--device", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["table", "text"])
def test_two_processes_train_what_one_trains(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The same weights up to rounding, one report, samples once; and two processes resume where they stopped.

    In float64, because Adam divides by the size of a gradient and so magnifies the rounding of one near zero.
    """
    data = request.getfixturevalue(kind)
    flags = ["--batch-size", 16, "--width", 16, "--depth", 1, "--seed", 3, "--precision", "64-true"]
    flags += ["--length", 24, "--network", "sequence-transformer"] if kind == "text" else []
    one, two = tmp_path / "one", tmp_path / "two"
    assert cli.main(["train", str(data), "--out", str(one), "--steps", "8", *map(str, flags)]) == 0
    trained([data, "--out", two, "--steps", 5, *flags, "--devices", 2])
    printed = trained([data, "--out", two, "--steps", 8, *flags, "--devices", 2])
    assert "step 5 of 8, 2 x cpu" in printed
    for line in ("noise: ", "after 8 steps: ", "samples: "):
        assert printed.count(f"\n{line}") == 1
    ours, theirs = (load_file(run / "step-00000008" / "model.safetensors") for run in (two, one))
    assert ours.keys() == theirs.keys()
    for name, weight in theirs.items():
        assert torch.allclose(ours[name], weight, rtol=0.0, atol=1e-11), name
    reports = [tl.load(run).about for run in (two, one)]
    assert reports[0]["choice"] == reports[1]["choice"]
    assert reports[0]["bits_per_dim"]["value"] == pytest.approx(reports[1]["bits_per_dim"]["value"], rel=1e-9)
    assert sorted(path.name for path in two.glob("samples*")) == ["samples"]
    files = [sorted(path.name for path in (run / "samples").iterdir()) for run in (two, one)]
    assert files[0] == files[1]


def test_two_processes_agree_about_the_time(table: Path, tmp_path: Path) -> None:
    """The number of steps follows from the clock of the first."""
    trained([table, "--out", tmp_path / "run", "--minutes", 0.1, "--devices", 2, "--width", 16])
    about = tl.load(tmp_path / "run").about
    assert about["steps_trained"] >= 1
    assert about["stopped"] in ("finished", "minutes")
