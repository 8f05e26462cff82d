"""The options of ``tauleap complete``."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from tauleap._files import owned
from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.help import Metavar
from tauleap.cli.options import (
    DeviceName,
    Json,
    RunFolder,
    SamplerOption,
    Steps,
    Temperature,
    Tolerance,
    at_least,
    check_exists,
    check_run,
    check_steps,
    check_temperature,
)
from tauleap.cli.samplers import SamplerChoice, check_option
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Complete:
    """Fill in the missing values of a file, given its observed values.

    Missing values are empty cells of a table, the end of a text, melody or row of symbols, gaps marked by a wildcard,
    transparent pixels, or all sites that --observed does not name. They are drawn from the model, or predicted one by
    one from a single network evaluation per row.
    """

    GROUPS: ClassVar = {
        "data": ("observed", "wildcard"),
        "sampling": ("mode", "variants", "steps", "tol", "sampler", "sampler_option", "temperature", "seed"),
        "resource": ("batch_size", "device"),
        "output": ("out", "json"),
    }
    EXAMPLES: ClassVar = (
        "tauleap complete music-small                               # continues the Ode to Joy",
        "tauleap complete runs/adult gaps.csv                       # fills empty cells",
        "tauleap complete runs/adult rows.csv --observed age,sex    # resamples all other columns",
        "tauleap complete runs/adult gaps.csv --mode best           # the best value for each empty cell",
        "tauleap complete runs/novel start.txt --variants 3",
    )

    run_folder: RunFolder
    file: Annotated[tuple[Path, ...], Metavar("[FILE]")]
    """File to complete, of the same kind as the training data. Default: the Ode to Joy for models of music."""
    observed: str | None = None
    """Observed sites, as positions from 0 (0:32,40) or column names; all others are sampled. Default: all that
    are not missing."""
    wildcard: str | None = None
    """Text that stands for one missing symbol in a row of symbols. A row with wildcards is not continued at its end.
    Default: X for amino acids, N for bases, else the first of ? _ * # that does not occur."""
    mode: Literal["draw", "best", "probabilities"] = "draw"
    """Method: draw samples all values jointly from the model; best predicts each value by itself, as the most
    probable state, the mean of numbers or the median of dates; probabilities writes, for tables only, the probability
    of every state of each value."""
    variants: int = 1
    """Completions per row, >= 1."""
    steps: Steps = None
    tol: Tolerance = None
    sampler: SamplerChoice = None
    sampler_option: SamplerOption = None
    temperature: Temperature = 1.0
    out: Path | None = None
    """Folder for the result: new or empty. Default: FILE-completed."""
    seed: int = 0
    """Random seed, 0 to 2^63 - 1; the same seed and --batch-size give the same completions."""
    batch_size: int | None = None
    """Rows per batch, >= 1. Default: as many as fit into the memory of the device."""
    device: DeviceName = "auto"
    json: Json = False

    def run(self) -> None:
        """Check the options, complete the rows, and print where the files are."""
        at_least("--variants", self.variants, 1)
        check_steps(self.steps, self.tol)
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1)
        check_seed(self.seed, name="--seed")
        check_temperature(self.temperature)
        check_option(self.sampler, self.sampler_option)
        if self.mode != "draw":
            self._check_prediction()
        if len(self.file) > 1:
            names = ", ".join(map(str, self.file))
            raise ValueError(f"expected one file, got {len(self.file)}: {names}; run the command once per file")
        file = self.file[0] if self.file else None
        out = self.out or Path(f"{'opening' if file is None else file.stem}-completed")
        owned.remove_abandoned(out)
        if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
            raise ValueError(f"{out} exists already: write the name of a new folder with --out")
        check_run(self.run_folder)
        if file is not None:
            check_exists(file)
            check_supported(file, single=True)

        with importing():
            from tauleap.cli.run.complete import run

        run(self, file, out)

    def _check_prediction(self) -> None:
        """Raise ValueError for an option of sampling, which a prediction does not use."""
        for name in ("variants", "steps", "tol", "sampler", "sampler_option", "temperature"):
            field = next(field for field in dataclasses.fields(self) if field.name == name)
            if getattr(self, name) != field.default:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} needs --mode draw, got --mode {self.mode}: leave {option} out")
