"""The options of ``tauleap train``: a recipe, or the user's own data."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.help import Metavar
from tauleap.cli.options import DeviceName, Json, at_least
from tauleap.cli.signals import importing

RECIPES = ("toy", "toy-paper", "digits", "music", "music-paper", "mnist", "cifar10")
RECIPES_WITH_DATA = ("mnist", "cifar10")
_RECIPE_OPTIONS = ("data", "download")
FILE_OPTIONS = ("length", "coding", "drop", "array", "ordinal", "size", "states")
SEQUENCE_OPTIONS = ("lines", "tokens", "vocabulary", "text", "label")
TABLE_OPTIONS = ("bins", "header", "missing", "model_missing", "keep_rare", "delimiter", "decimal", "encoding")
READING_OPTIONS = (*FILE_OPTIONS, *SEQUENCE_OPTIONS, *TABLE_OPTIONS, "type")
DATA_OPTIONS = (*READING_OPTIONS, "process", "network", "width", "depth", "objective")
TRAINING_OPTIONS = (
    *("batch_size", "lr", "precision", "devices", "nodes", "strategy", "device", "accumulate", "compile"),
    *("checkpoint_every", "keep"),
)
"""Options that recipes and data of the user's own share."""


@dataclass(frozen=True)
class Train:
    """Train a model on your own data or with a recipe.

    Data is an array of whole numbers (.npy, .npz), a table (.csv, .tsv, .data, .parquet, or delimited text without a
    suffix), a text (.txt), rows of symbols of any length (.smi, .smiles, .fasta, .fa, .faa, .fna, .jsonl), a folder of
    MIDI files, a folder of images, an idx file (MNIST) or the binary archive of CIFAR-10. Column types,
    noise and network are selected and printed with the reason; options override them.
    A recipe fixes data, model and settings; options that are not given keep its values.
    If the folder of --out holds an unfinished run, the same command resumes it.
    """

    GROUPS: ClassVar = {
        "data": (
            *("data", "download", "length", "coding", "array", "states", "ordinal", "size"),
            *("type", "drop", "bins", "missing", "model_missing", "keep_rare"),
            *("header", "delimiter", "decimal", "encoding"),
            *("lines", "tokens", "vocabulary", "text", "label"),
        ),
        "model": ("process", "network", "width", "depth", "objective"),
        "training": (
            *("minutes", "steps", "batch_size", "lr", "seed", "precision", "accumulate", "compile"),
            *("device", "devices", "nodes", "strategy"),
        ),
        "output": ("out", "checkpoint_every", "keep", "json"),
    }
    EXAMPLES: ClassVar = (
        "tauleap train adult.csv                            # 3 minutes in all, into runs/adult",
        "tauleap train adult.csv --minutes 30 --type zip=category --drop id",
        "tauleap train novel.txt --length 128 --out runs/novel",
        "tauleap train names.txt                            # one row per line, of any length",
        "tauleap train molecules.csv --text smiles --label active",
        "tauleap train melodies/ --minutes 20               # a folder of MIDI files",
        "tauleap train mnist --data mnist.npz --device cuda",
    )

    what: Annotated[str, Metavar("DATA")]
    """File or folder, or one of the recipes toy, toy-paper, digits, music, music-paper, mnist and cifar10."""
    data: Path | None = None
    """Images of a recipe. mnist: folder of idx files or .npz; cifar10: binary archive, its folder or .npz."""
    download: bool = False
    """Recipe cifar10: download the archive from its authors' site (170 MB, once)."""
    out: Path | None = None
    """Folder for checkpoints, logs and samples; a run in it is resumed. Default: runs/NAME."""
    steps: int | None = None
    """Training steps in all, >= 1; also sets the horizon of the learning-rate decay. Default: as many as
    --minutes allow."""
    minutes: float | None = None
    """Stop with a checkpoint after this many minutes, > 0; for data, they include reading, measuring and sampling.
    Default: 3 for data."""
    length: int | None = None
    """Length of a row of a text (characters or bytes), of music (sixteenth notes) or of an array with one axis, >= 1
    (default 64, music 256). Rows of symbols: the largest number of symbols; default: that of the longest row, or the
    99.5th percentile."""
    coding: Literal["auto", "characters", "bytes"] = "auto"
    """States of a text: its characters, or bytes."""
    drop: Annotated[tuple[str, ...], Metavar("COLUMN ...")] = ()
    """Columns of a table to ignore. Default: none."""
    type: Annotated[tuple[str, ...], Metavar("COLUMN=TYPE ...")] = ()
    """Column types of a table, such as age=number day=date:%d.%m.%Y; TYPE is number, category, date, boolean, constant,
    id or text. Default: detected."""
    bins: int | None = None
    """Quantile bins per column of numbers or dates of a table, 2 to 10,000. Default: 100; for --label 5."""
    header: Annotated[bool | None, Metavar("| --no-header")] = None
    """Read the column names from the first line of a table, or take all lines as rows. Default: detected."""
    missing: Annotated[tuple[str, ...], Metavar("TEXT ...")] = ()
    """Texts that mark a missing cell of a table, besides the empty cell; they replace the default. Default: NA, null,
    ..., and "?" among numbers."""
    model_missing: bool = False
    """Also model which values of a table are missing, as an additional state."""
    keep_rare: bool = False
    """Keep rare categories of columns with more than 1,000 categories; they may be personal data."""
    delimiter: str | None = None
    """Column separator of a table: "," ";" "|" tab or space. Default: detected."""
    decimal: str | None = None
    """Decimal separator of a table, "." or ",". Default: detected."""
    encoding: str | None = None
    """Encoding of a table: utf-8, utf-16, cp1252 or latin-1. Default: detected."""
    lines: Annotated[bool | None, Metavar("| --no-lines")] = None
    """Read each line or record as a row of its own, or the file as one text. Default: rows, if the ending is one of
    rows of symbols, or if the lines of a .txt are short and none is empty."""
    tokens: Literal["auto", "characters", "bytes", "smiles", "amino", "bases", "words", "bpe"] = "auto"
    """How rows are divided into symbols. Default: auto, by the kind of file."""
    vocabulary: int | None = None
    """Largest number of different symbols, >= 2; needs --tokens bpe or words. Default: 4096 for bpe, all words."""
    text: str | None = None
    """Column of a table, or entry of the objects in a .jsonl, with the rows of symbols; other columns are not used.
    Default: none."""
    label: Annotated[tuple[str, ...], Metavar("COLUMN ...")] = ()
    """Columns of a table with class labels of the rows in --text; numbers are divided into --bins classes (5).
    Default: none."""
    array: str | None = None
    """Name of the array in an .npz file. Default: the only one."""
    ordinal: bool | None = None
    """Treat the numbers of an array as ordered quantities, or as categories. Default: True for rows with two or
    more axes."""
    size: int | None = None
    """Pixels on the longer side, to which images are scaled, >= 1. Default: at most 64."""
    states: int | None = None
    """Number of states N of an array with values 0..N-1, >= 2. Default: found in the file."""
    process: Literal["absorbing", "uniform", "rank-one", "gaussian", "birth-death"] | None = None
    """Forward noise process; gaussian and birth-death need ordered values. Default: selected."""
    network: Literal["table", "residual-mlp", "sequence-transformer", "music-transformer", "unet"] | None = None
    """Network; unet needs images. Default: selected."""
    width: int | None = None
    """Width of the network, >= 1. Default: selected for the data and --minutes."""
    depth: int | None = None
    """Depth of the network, >= 1; for unet, blocks per level. Default: selected for the data and --minutes."""
    objective: Literal["any-order", "complete", "paper", "cross-entropy"] | None = None
    """Loss: the likelihood bound averaged over numbers of masked sites (any-order, for absorbing noise) or over times
    (complete), the paper's loss (paper), or cross-entropy. Default: selected."""
    json: Json = False
    batch_size: int | None = None
    """Rows per training step over all devices, >= 1. Default: selected, or the recipe's."""
    lr: float | None = None
    """Learning rate after the warm-up, > 0. Default: selected, or the recipe's."""
    seed: int | None = None
    """Random seed of weights, data order and noise, 0 to 2^63 - 1. Default: 0, or the recipe's."""
    checkpoint_every: int | None = None
    """Training steps between checkpoints, >= 1. Default: an eighth of the steps for data, or the recipe's."""
    precision: str | None = None
    """Precision of the network: 32-true, bf16-mixed, 16-mixed or 64-true. Default: 32-true, or the recipe's."""
    devices: int = 1
    """Number of devices per machine, or of processes on a CPU, >= 1."""
    nodes: int = 1
    """Number of machines that train together, >= 1."""
    strategy: str = "auto"
    """Weights on several devices: ddp (a copy on each) or fsdp (sharded). Default: ddp."""
    device: DeviceName = "auto"
    accumulate: int = 1
    """Split each batch into this many parts, >= 1, to save memory (gradient accumulation)."""
    compile: bool = False
    """Compile the network with torch.compile."""
    keep: int | None = None
    """Number of checkpoints to keep, >= 1; for data, the best one becomes the model. Default: 3 for recipes, 10 for
    data."""

    def run(self) -> None:
        """Check the options and train.

        The exit code is 130, 143 or 129 after Ctrl-C, SIGTERM or SIGHUP, and 1 when the loss is not a number.
        """
        began = time.monotonic()
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise ValueError(f"--minutes must be a finite number > 0, got {self.minutes}")
        if self.what in RECIPES:
            self._reject(DATA_OPTIONS, f"is only for your own data, not for the recipe {self.what}: leave it out")

            with importing():
                from tauleap.cli.run.train import run_recipe

            run_recipe(self)
        else:
            path = Path(self.what)
            if not path.exists():
                raise ValueError(
                    f"{path} does not exist: write a file, a folder, or one of the recipes {', '.join(RECIPES)}"
                )
            recipes = " and ".join(RECIPES_WITH_DATA)
            self._reject(_RECIPE_OPTIONS, f"is only for the recipes {recipes}, not for your own data: leave it out")
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
            raise ValueError(f"--type takes COLUMN=TYPE, once per column, such as age=number; got {' '.join(wrong)}")
        return types

    def _reject(self, names: tuple[str, ...], why: str) -> None:
        for field in dataclasses.fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name.replace('_', '-')} {why}")

    def _check_data(self, path: Path) -> Path:
        """Return the folder of a run on the user's own data, after the checks that need no torch."""
        check_seed(0 if self.seed is None else self.seed, name="--seed")
        if self.steps is not None:
            at_least("--steps", self.steps, 1)
        self.column_types()
        check_supported(path)
        out = self.out or Path("runs") / path.resolve().stem
        if path.resolve().is_relative_to(out.resolve()):
            raise ValueError(
                f"the run's folder {out} contains the data {path}: write the name of a new folder with --out"
            )
        if out.resolve().is_relative_to(path.resolve()):  # the next command would read the samples of the run as data
            raise ValueError(
                f"the run's folder {out} is inside the data {path}: write the name of a new folder with --out"
            )
        return out
