"""The options of ``tauleap train``: a recipe, or data of the user's own."""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tauleap._files import safe_read
from tauleap._files.full_disk import explaining_full_disk
from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.runs import at_least, tell
from tauleap.cli.signals import importing

if TYPE_CHECKING:
    from tauleap.training import Recipe, Run, Settings

RECIPES = ("toy", "toy-paper", "digits", "music", "music-paper", "mnist", "cifar10")
_WITH_DATA = ("mnist", "cifar10")
_OF_RECIPES = ("data", "download")
_OF_FILES = ("length", "coding", "drop", "array", "ordinal", "size", "states")
_OF_DATA = (*_OF_FILES, "process", "network", "width", "depth", "objective")
_OF_TRAINING = (
    *("batch_size", "lr", "precision", "devices", "nodes", "strategy", "device", "accumulate", "compile"),
    *("checkpoint_every", "keep"),
)
"""Options that recipes and data of the user's own share."""


@dataclass(frozen=True)
class Train:
    """Train a model on your own data, or by a recipe; or go on with a run that was begun in the same folder.

    Data is an array of whole numbers (.npy, .npz), a table of categories (.csv, .tsv, .parquet), a text (.txt), a
    folder of MIDI files, a folder of pictures, an idx file (MNIST) or CIFAR-10's binary archive. What suits it is
    chosen and printed with the reason; options override it. Unset options take the recipe's values for a recipe.
    """

    what: str
    """A file or a folder; or the recipe toy, toy-paper, digits, music, music-paper, mnist or cifar10."""
    data: Path | None = None
    """For mnist, a folder of idx files or an .npz; for cifar10, the binary archive, its folder or an .npz."""
    download: bool = False
    """For cifar10: get the archive from its authors' site (170 MB), once."""
    out: Path | None = None
    """Folder for checkpoints, logs and samples; runs/NAME by default. A run that was begun there goes on."""
    steps: int | None = None
    """Where to stop; a rate that falls to the recipe's end falls to this. A finished run goes on when it grows."""
    minutes: float | None = None
    """Stop after this time, with a checkpoint. For data it is a budget for everything, 3 by default."""
    length: int | None = None
    """Of a row: text (64 by default), music (256) and arrays with one axis (64)."""
    coding: Literal["auto", "characters", "bytes"] = "auto"
    """Of text."""
    drop: tuple[str, ...] = ()
    """Columns of a table to leave out."""
    array: str | None = None
    """Which array of an .npz."""
    ordinal: bool | None = None
    """Whether the numbers of an array are quantities: True or False."""
    size: int | None = None
    """Of pictures: pixels on the longer side."""
    states: int | None = None
    """Of an array: how many states there are, the values 0..N-1, where they are not to be found in the file."""
    process: Literal["absorbing", "uniform", "rank-one", "gaussian", "birth-death"] | None = None
    """For data: the noise. gaussian and birth-death are for ordered values."""
    network: Literal["residual-mlp", "sequence-transformer", "music-transformer", "unet"] | None = None
    """For data: the network. unet is for pictures."""
    width: int | None = None
    """For data: width of the network."""
    depth: int | None = None
    """For data: depth of the network; for unet, blocks per level."""
    objective: Literal["complete", "paper", "cross-entropy"] | None = None
    """For data: the loss; complete by default."""
    json: bool = False
    """Print one object for scripts instead of text."""
    batch_size: int | None = None
    """Rows per step, over all devices together."""
    lr: float | None = None
    """Learning rate."""
    seed: int | None = None
    """Of the weights, the order of the data and all noise."""
    checkpoint_every: int | None = None
    """Steps between checkpoints."""
    precision: str | None = None
    """Of the network: 32-true, bf16-mixed, 16-mixed or 64-true."""
    devices: int = 1
    """Devices of each machine, or processes on a CPU."""
    nodes: int = 1
    """Machines."""
    strategy: str = "auto"
    """How several devices hold the weights: each a copy (ddp, the default), or each a part (fsdp)."""
    device: str = "auto"
    """Where to train: cpu, cuda, cuda:1, mps, ...; auto for the accelerator if there is one."""
    accumulate: int = 1
    """Pieces into which a device's part of a batch is cut, where memory is short."""
    compile: bool = False
    """Compile the network."""
    keep: int | None = None
    """How many checkpoints are kept: 3 by default, 10 for data, where the best of them is chosen."""

    def run(self) -> None:
        """Trains; leaves with 130, 143 or 129 after Ctrl-C, SIGTERM or SIGHUP, with 1 when the loss is not a number."""
        began = time.monotonic()
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(f"minutes must be a finite number > 0, got {self.minutes}")
        if self.what in RECIPES:
            self._refuse(_OF_DATA, "is for data of your own, not for a recipe")
            self._run_recipe()
        else:
            path = Path(self.what)
            if not path.exists():
                raise ValueError(f"{path} does not exist, and is none of the recipes {', '.join(RECIPES)}")
            self._refuse(_OF_RECIPES, "is for a recipe, not for data of your own")
            self._run_data(path, began)

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        for field in dataclasses.fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name.replace('_', '-')} {why}")

    def _run_data(self, path: Path, began: float) -> None:
        seed = check_seed(0 if self.seed is None else self.seed, name="--seed")
        if self.steps is not None:
            at_least("--steps", self.steps, 1)
        check_supported(path)
        out = self.out or Path("runs") / path.resolve().stem
        if path.resolve().is_relative_to(out.resolve()):
            raise ValueError(f"{out} holds the data, {path}: write the name of a new folder for the run (--out)")
        if out.resolve().is_relative_to(path.resolve()):  # the next command would read the samples of the run as data
            raise ValueError(f"{out} is inside the data, {path}: write the name of a new folder elsewhere (--out)")

        with importing():
            from tauleap.cli.own_data import facts_of, next_commands, train_on
            from tauleap.data import open_data
            from tauleap.fitting import longer
            from tauleap.training import NonFiniteError
            from tauleap.training.folder import check_run_folder

        check_run_folder(out)  # before the data is read, which may take minutes
        self._checked_run(out)
        opened = open_data(path, **{name: getattr(self, name) for name in _OF_FILES})
        try:
            with explaining_full_disk(out):
                done = train_on(
                    opened,
                    out,
                    minutes=self.minutes,
                    steps=self.steps,
                    seed=seed,
                    progress=not self.json,
                    began=began,
                    options={name: getattr(self, name) for name in (*_OF_DATA, *_OF_TRAINING) if name not in _OF_FILES},
                )
        except NonFiniteError as error:
            print(f"tauleap: error: {error}", file=sys.stderr)
            raise SystemExit(1) from error
        if done is None:  # another rank, and the first one prints
            return
        if done.stopped.startswith("SIG"):
            tell(self.json, facts_of(done, out), [f"{done.stopped}: {out}", f"to go on: {same_command()}"])
            raise SystemExit(128 + signal.Signals[done.stopped])
        files = str(done.files[0]) if len(done.files) == 1 else f"{len(done.files)} files in {out / 'samples'}"
        lines, facts = [done.shown, f"samples: {files}, sampled by {done.plan}"], facts_of(done, out)
        if done.model.about.get("better_than_independent") is False:
            facts["train_longer"] = self._longer_command(longer(done.model.about), out)
            lines.append(f"next: {facts['train_longer']}  # trains longer")
        lines += [f"next: {line}" for line in next_commands(out, opened, path)]
        tell(self.json, facts, lines)

    def _longer_command(self, minutes: int, out: Path) -> str:
        """Return the command for more minutes in a new folder: another budget may choose another network."""
        words = ["tauleap", "train", self.what, "--minutes", str(minutes), "--out", f"{out}-{minutes}-minutes"]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("what", "out", "steps", "minutes", "json") or value == field.default:
                continue
            values = value if isinstance(value, tuple) else () if field.type == "bool" else (value,)
            words += [f"--{field.name.replace('_', '-')}", *map(str, values)]
        return shlex.join(words)

    def _run_recipe(self) -> None:
        with importing():
            from rich.console import Console

            from tauleap.training import NonFiniteError, train
            from tauleap.training.folder import check_run_folder

        out = self.out or Path("runs") / self.what
        check_run_folder(out)  # before the data is downloaded and read
        run = self._checked_run(out)  # before the data, which may be downloaded
        recipe = self._recipe()
        names = ("steps", "batch_size", "lr", "seed", "checkpoint_every", "precision")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        given |= _falling(recipe.settings, self.steps, out)
        recipe = dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, **given))
        try:
            result = train(recipe, run, console=Console(quiet=True)) if self.json else train(recipe, run)
        except NonFiniteError as error:
            print(f"tauleap: error: {error}", file=sys.stderr)
            raise SystemExit(1) from error
        if not result.first:
            return
        facts = {"run": str(run.folder), "step": result.step, "stopped": result.stopped}
        lines = [f"{result.stopped} at step {result.step}: {result.checkpoint}"]
        if result.stopped != "finished":
            lines.append(f"to go on: {same_command()}")
        tell(self.json, facts | {"checkpoint": str(result.checkpoint)}, lines)
        if result.stopped.startswith("SIG"):
            raise SystemExit(128 + signal.Signals[result.stopped])

    def _checked_run(self, out: Path) -> Run:
        """Return the folder and the devices, after a check that this machine has them."""
        from tauleap.training import Run

        run = Run(
            out=out,
            minutes=self.minutes,
            devices=self.devices,
            nodes=self.nodes,
            strategy=self.strategy,
            device=self.device,
            accumulate=self.accumulate,
            compile=self.compile,
            keep=3 if self.keep is None else self.keep,
        )
        run.check(self.precision or "32-true")
        return run

    def _recipe(self) -> Recipe:
        with importing():
            from tauleap import recipes

        make = getattr(recipes, self.what.replace("-", "_"))
        if self.download and self.what != "cifar10":
            raise ValueError("--download is for the recipe cifar10")
        if self.what not in _WITH_DATA:
            if self.data is not None:
                raise ValueError(f"--data is for the recipes {' and '.join(_WITH_DATA)}; {self.what} has its own")
            return make()
        if self.data is None and not self.download:
            download = " or --download" if self.what == "cifar10" else ""
            raise ValueError(f"the recipe {self.what} needs its images: write --data PATH{download}")
        return make(self.data, download=True) if self.download else make(self.data)


def _falling(settings: Settings, steps: int | None, folder: Path) -> dict[str, int]:
    """By which step the learning rate has fallen: where that is the recipe's last, the last that is asked for.

    What was begun keeps the rate that it was begun with, also where it goes on for longer. A run that ends within the
    warm-up never comes to fall, so the recipe's own is left to one that goes on.
    """
    if settings.decay != settings.steps:
        return {}
    from tauleap.pretrained.checkpoints import checkpoint_folders

    for _, checkpoint in reversed(checkpoint_folders(folder)):
        try:
            recorded = safe_read.read_json(checkpoint / "recipe.json", inside=checkpoint)
            decay = recorded["recipe"]["settings"]["decay"]
        except (OSError, ValueError, TypeError, KeyError):
            continue  # damaged: training looks at it more closely
        if isinstance(decay, int):
            return {"decay": decay}
    return {"decay": steps} if steps is not None and steps > settings.warmup else {}


def same_command() -> str:
    """What was typed; under torchrun with what is known here of its flags."""
    typed = ["tauleap", *sys.argv[1:]]
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return shlex.join(typed)
    ranks, here = os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]
    if ranks != here:
        return f"{shlex.join(typed)}, under torchrun with the same flags on every machine"
    return shlex.join(["torchrun", "--nproc-per-node", here, sys.argv[0], *typed[1:]])
