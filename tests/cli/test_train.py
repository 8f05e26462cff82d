"""``tauleap train``: its flags, its words, and how it leaves."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tauleap as tl
from tauleap import _device, cli, recipes, training
from tauleap.cli.commands.train import RECIPES

SCRIPT = Path(sysconfig.get_path("scripts")) / "tauleap"
ABSENT = "mps" if torch.cuda.is_available() else "cuda"  # no machine has both


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A toy with little data, so that a few steps are quick; the module is hidden by the function of its name."""
    toy = sys.modules["tauleap.recipes.toy"]
    monkeypatch.setattr(toy, "_ROWS", 500)
    monkeypatch.setattr(toy, "_HELD_OUT", 20)
    monkeypatch.setattr("tauleap.training.watch._STEPS", 5)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_recipes_of_the_command_line_are_those_that_exist() -> None:
    assert {name.replace("-", "_") for name in RECIPES} == set(recipes.__all__)


def test_a_run_that_is_made_goes_on_and_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a" / "run"
    assert cli.main(["train", "toy", "--out", str(out), "--steps", "3"]) == 0
    message = capsys.readouterr().out
    assert "80,032 weights" in message
    assert "bits/dim" in message
    assert f"finished at step 3: {out / 'step-00000003'}" in message
    assert (out / "samples" / "step-00000003.png").exists()
    assert tl.load(out).shape == (2,)

    assert cli.main(["train", "toy", "--out", str(out), "--steps", "4"]) == 0
    assert "step 3 of 4" in capsys.readouterr().out

    assert cli.main(["train", "toy", "--out", str(out), "--steps", "4", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"run": str(out), "step": 4, "stopped": "finished", "checkpoint": str(out / "step-00000004")}

    assert cli.main(["train", "toy", "--out", str(out), "--steps", "5", "--lr", "0.5", "--batch-size", "16"]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"tauleap: error: {out} holds a run of another recipe: ")
    assert "settings.lr: 0.004 -> 0.5" in message
    assert "settings.batch_size: 768 -> 16" in message
    assert message.count("\n") == 1
    assert (out / "latest").resolve().name == "step-00000004"


def test_flags_arrive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def train(recipe: training.Recipe, run: training.Run) -> training.Result:
        seen.append((recipe, run))
        return training.Result(7, tmp_path, "finished", True)

    monkeypatch.setattr("tauleap.cli.run.train.train", train)
    monkeypatch.setattr("tauleap.cli.run.train._tune_checkpoint", lambda *trained: None)
    monkeypatch.setattr(_device, "cpu_cores", lambda: 2)
    flags = "--steps 9 --batch-size 4 --lr 0.5 --seed 3 --checkpoint-every 2 --precision bf16-mixed --minutes 1.5"
    monkeypatch.setenv("NODE_RANK", "0")  # the machines are started by hand
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    more = "--devices 2 --nodes 3 --strategy ddp --device cpu --accumulate 2 --compile --keep 7"
    assert cli.main(["train", "digits", *flags.split(), *more.split()]) == 0
    ((recipe, run),) = seen
    made = recipe.settings
    assert (made.steps, made.batch_size, made.lr, made.seed) == (9, 4, 0.5, 3)
    assert (made.checkpoint_every, made.precision) == (2, "bf16-mixed")
    assert made.warmup == recipes.digits().settings.warmup
    assert (run.minutes, run.devices, run.nodes, run.strategy, run.device) == (1.5, 2, 3, "ddp", "cpu")
    assert (run.accumulate, run.compile, run.keep, run.out) == (2, True, 7, Path("runs/digits"))


@pytest.mark.parametrize(
    ("recipe", "steps", "decay"),
    [("mnist", None, 10_000), ("mnist", 600, 600), ("mnist", 9000, 9000), ("mnist", 200, 10_000), ("toy", 101, 101)],
)
def test_the_learning_rate_falls_to_the_last_step(
    recipe: str, steps: int | None, decay: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not within the warm-up, 200 steps of mnist, in which it only grows."""
    monkeypatch.chdir(tmp_path)
    seen = []

    def train(recipe: training.Recipe, run: training.Run) -> training.Result:
        seen.append(recipe.settings)
        return training.Result(7, tmp_path, "finished", True)

    monkeypatch.setattr("tauleap.cli.run.train.train", train)
    monkeypatch.setattr("tauleap.cli.run.train._tune_checkpoint", lambda *trained: None)
    data = ["--data", "mnist.npz"] if recipe == "mnist" else []
    assert cli.main(["train", recipe, *data, *([] if steps is None else ["--steps", str(steps)])]) == 0
    assert [settings.decay for settings in seen] == [decay]


def test_a_rate_that_does_not_fall_to_the_end_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def train(recipe: training.Recipe, run: training.Run) -> training.Result:
        seen.append(recipe.settings.decay)
        return training.Result(7, tmp_path, "finished", True)

    monkeypatch.setattr("tauleap.cli.run.train.train", train)
    monkeypatch.setattr("tauleap.cli.run.train._tune_checkpoint", lambda *trained: None)
    assert cli.main(["train", "digits", "--steps", "900", "--out", str(tmp_path / "run")]) == 0
    assert seen == [None]


def test_a_run_that_goes_on_keeps_the_rate_it_was_begun_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = recipes.toy()
    quick = replace(toy, settings=replace(toy.settings, warmup=1, batch_size=16, sample_every=None))
    monkeypatch.setattr(recipes, "toy", lambda: quick)
    out = tmp_path / "run"
    for steps in ("3", "5"):
        assert cli.main(["train", "toy", "--out", str(out), "--steps", steps, "--json"]) == 0
        recorded = json.loads((out / "latest" / "recipe.json").read_text())["recipe"]["settings"]
        assert (recorded["steps"], recorded["decay"]) == (int(steps), 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "0"], "batch_size must be"),
        (["--lr", "-1"], "lr must be"),
        (["--minutes", "0"], "minutes must be"),
        (["--devices", "0"], "devices must be"),
        (["--accumulate", "5"], "multiple of 5"),
        (["--length", "3"], "--length is only for your own data, not for the recipe toy: leave it out"),
        (["--drop", "a"], "--drop is only for your own data"),
        (["--network", "unet"], "--network is only for your own data"),
        (["--width", "3"], "--width is only for your own data"),
        (["--precision", "7"], "precision must be 32-true, bf16-mixed, 16-mixed or 64-true, got '7'"),
        (["--strategy", "ddpp"], "strategy must be auto, ddp or fsdp, got 'ddpp'"),
        (["--strategy", "fsdp", "--precision", "64-true"], "strategy fsdp supports precision 32-true and bf16-mixed"),
        (["--device", "cpu", "--precision", "16-mixed"], "precision 16-mixed needs an accelerator: write bf16-mixed"),
        (["--device", "cpu", "--devices", "1000"], "the number of CPU cores of this machine, got 1000"),
        (["--device", "gpu"], "device must be auto, cpu, cuda, mps, xpu or another type of PyTorch, got 'gpu'"),
        (["--device", ABSENT], "is not available on this machine"),
    ],
)
def test_wrong_values(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "toy", "--out", str(tmp_path / "run"), *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").write_text("")
    assert cli.main(["train", "toy", "--out", str(tmp_path / "run"), "--steps", "1"]) == 2
    assert f"{tmp_path / 'run'} is a file: write the name of a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ranks", "here", "message"),
    [
        (None, None, "tauleap train toy --out 'a run'"),
        ("2", "2", "torchrun --nproc-per-node 2 /bin/tauleap train toy --out 'a run'"),
        ("8", "4", "tauleap train toy --out 'a run', started by torchrun with the same flags on every machine"),
    ],
)
def test_the_command_that_goes_on_is_the_one_that_was_given(
    ranks: str | None,
    here: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    if ranks is not None and here is not None:
        for name, value in {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": here}.items():
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["/bin/tauleap", "train", "toy", "--out", "a run"])
    monkeypatch.setattr(
        "tauleap.cli.run.train.train", lambda recipe, run: training.Result(7, Path("there"), "SIGINT", True)
    )
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 130
    assert capsys.readouterr().out == f"SIGINT at step 7: there\nto resume: {message}\n"


@pytest.mark.parametrize("arguments", [["train"], ["train", "toy", "--stepz", "3"]])
def test_wrong_words(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(arguments)
    assert leaving.value.code == 2
    assert capsys.readouterr().err


def test_a_loss_that_is_not_a_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(recipe: training.Recipe, run: training.Run) -> training.Result:
        raise training.NonFiniteError("the loss of step 7 is not finite")

    monkeypatch.setattr("tauleap.cli.run.train.train", train)
    monkeypatch.setattr("tauleap.cli.run.train._tune_checkpoint", lambda *trained: None)
    with pytest.raises(SystemExit) as leaving:
        cli.main(["train", "toy", "--out", str(tmp_path / "run")])
    assert leaving.value.code == 1
    assert capsys.readouterr().err == "tauleap: error: the loss of step 7 is not finite\n"


def test_two_processes_by_the_launcher_and_sigterm(tmp_path: Path) -> None:
    """The real command starts its second process, is stopped by a signal, and prints how to resume."""
    out = tmp_path / "a run"
    command = [SCRIPT, "train", "digits", "--out", out, "--devices", "2", "--strategy", "ddp", "--device", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    waited = time.monotonic() + 120
    while not (out / "latest").exists() and process.poll() is None and time.monotonic() < waited:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    message, error = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, error
    assert "SIGTERM at step" in message
    assert f"to resume: tauleap train digits --out '{out}' --devices 2 --strategy ddp" in message
    assert "2 x cpu" in message
    assert tl.load(out).shape == (1, 8, 8)
