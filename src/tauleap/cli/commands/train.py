"""The options of ``tauleap train``: a recipe, or data of the user's own."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.options import at_least
from tauleap.cli.signals import importing

RECIPES = ("toy", "toy-paper", "digits", "music", "music-paper", "mnist", "cifar10")
RECIPES_WITH_DATA = ("mnist", "cifar10")
_RECIPE_OPTIONS = ("data", "download")
FILE_OPTIONS = ("length", "coding", "drop", "array", "ordinal", "size", "states")
TABLE_OPTIONS = ("bins", "header", "missing", "model_missing", "keep_rare", "delimiter", "decimal", "encoding")
DATA_OPTIONS = (*FILE_OPTIONS, *TABLE_OPTIONS, "type", "process", "network", "width", "depth", "objective")
TRAINING_OPTIONS = (
    *("batch_size", "lr", "precision", "devices", "nodes", "strategy", "device", "accumulate", "compile"),
    *("checkpoint_every", "keep"),
)
"""Options that recipes and data of the user's own share."""


@dataclass(frozen=True)
class Train:
    """Train a model on your own data, or by a recipe; or go on with a run that was begun in the same folder.

    Data is an array of whole numbers (.npy, .npz), a table (.csv, .tsv, .data, .parquet, or delimited text without an
    ending), a text (.txt), a folder of MIDI files, a folder of pictures, an idx file (MNIST) or CIFAR-10's binary
    archive. Column types, noise and network are chosen and printed with the reason; options override them. Unset
    options take the recipe's values for a recipe.
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
    type: tuple[str, ...] = ()
    """Types of a table's columns, such as age=number zip=category day=date:%d.%m.%Y: number, category, date, boolean,
    constant, id or text; the others are detected."""
    bins: int | None = None
    """Quantile bins per column of numbers or dates of a table, 100 by default."""
    header: bool | None = None
    """Whether the first line of a table has the names of its columns: --header or --no-header; detected by default."""
    missing: tuple[str, ...] = ()
    """Texts of missing values in a table, beside the empty cell; by default NA and the like, and "?" among numbers."""
    model_missing: bool = False
    """Learn where values of a table are missing, as a state of their own."""
    keep_rare: bool = False
    """Store rare categories of columns with more than 1,000, so that samples contain them: they may be personal."""
    delimiter: str | None = None
    """Of a table: a comma, tab, semicolon, bar or space; detected by default."""
    decimal: str | None = None
    """Decimal separator of a table, . or ,; detected by default."""
    encoding: str | None = None
    """Encoding of a table: utf-8, utf-16, cp1252 or latin-1; detected by default."""
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
        """Check the options and train.

        The exit code is 130, 143 or 129 after Ctrl-C, SIGTERM or SIGHUP, and 1 when the loss is not a number.
        """
        began = time.monotonic()
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(f"minutes must be a finite number > 0, got {self.minutes}")
        if self.what in RECIPES:
            self._reject(DATA_OPTIONS, "is for data of your own, not for a recipe")

            with importing():
                from tauleap.cli.run.train import run_recipe

            run_recipe(self)
        else:
            path = Path(self.what)
            if not path.exists():
                raise ValueError(f"{path} does not exist, and is none of the recipes {', '.join(RECIPES)}")
            self._reject(_RECIPE_OPTIONS, "is for a recipe, not for data of your own")
            out = self._check_data(path)

            with importing():
                from tauleap.cli.run.train import run_data

            run_data(self, path, out, began)

    def column_types(self) -> dict[str, str]:
        """Return the types of ``--type`` by column name.

        Raises:
            ValueError: A word is not NAME=TYPE, or a column is named twice.
        """
        types: dict[str, str] = {}
        wrong: list[str] = []
        for word in self.type:
            # A format of dates may have an equals sign of its own, as may a name: a type begins after the last one.
            name, equals, kind = word.partition("=") if "=date:" in word else word.rpartition("=")
            if not equals or not name or not kind or name in types:
                wrong.append(word)
            types[name] = kind
        if wrong:
            raise ValueError(
                f"--type must be NAME=TYPE for each column once, such as age=number, got {' '.join(wrong)}"
            )
        return types

    def _reject(self, names: tuple[str, ...], why: str) -> None:
        for field in dataclasses.fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name.replace('_', '-')} {why}")

    def _check_data(self, path: Path) -> Path:
        """Return the folder of a run on data of the user's own, after the checks that need no torch."""
        check_seed(0 if self.seed is None else self.seed, name="--seed")
        if self.steps is not None:
            at_least("--steps", self.steps, 1)
        self.column_types()
        check_supported(path)
        out = self.out or Path("runs") / path.resolve().stem
        if path.resolve().is_relative_to(out.resolve()):
            raise ValueError(f"{out} holds the data, {path}: write the name of a new folder for the run (--out)")
        if out.resolve().is_relative_to(path.resolve()):  # the next command would read the samples of the run as data
            raise ValueError(f"{out} is inside the data, {path}: write the name of a new folder elsewhere (--out)")
        return out
