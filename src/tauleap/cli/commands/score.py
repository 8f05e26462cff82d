"""The options of ``tauleap score``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.help import Metavar
from tauleap.cli.options import DeviceName, Json, RunFolder, at_least, check_exists, check_run
from tauleap.cli.signals import importing

SUFFIXES = (".csv", ".tsv")


@dataclass(frozen=True)
class Score:
    """Find surprising rows and cells of a file: errors and anomalies.

    The result has the columns of the file and, for each row, its score, its bits, its most surprising cells with
    likelier values, values outside the training data, and the bits of each cell given the rest of the row. A score is
    log2 of the odds that a value was replaced by a random value of its column.
    """

    GROUPS: ClassVar = {
        "scoring": ("mark", "seed"),
        "resource": ("batch_size", "device"),
        "output": ("out", "json"),
    }
    EXAMPLES: ClassVar = (
        "tauleap score runs/adult rows.csv                     # writes rows-scored.csv",
        "tauleap score runs/adult rows.csv --mark 0.02 --out scored.csv",
    )

    run_folder: RunFolder
    data: Annotated[Path, Metavar("DATA")]
    """File of the same kind as the training data."""
    out: Path | None = None
    """File for the result, .csv or .tsv. Default: DATA-scored.csv."""
    mark: float = 0.01
    """Fraction of all cells to mark as the most surprising ones, 0 to 1."""
    seed: int = 0
    """Random seed, 0 to 2^63 - 1; without effect for absorbing noise."""
    batch_size: int | None = None
    """Rows per batch, >= 1. Default: as many as fit into the memory of the device."""
    device: DeviceName = "auto"
    json: Json = False

    def run(self) -> None:
        """Check the options, score the rows, and print the most surprising cells."""
        if not 0 <= self.mark <= 1:
            raise ValueError(f"--mark must be a fraction from 0 to 1, got {self.mark}")
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1)
        check_seed(self.seed, name="--seed")
        out = self.out or Path(f"{self.data.stem}-scored.csv")
        if out.suffix.lower() not in SUFFIXES:
            raise ValueError(f"--out must end in {' or '.join(SUFFIXES)}, got {out}")
        if out.exists():
            raise ValueError(f"{out} exists already: write the name of a new file with --out")
        if not out.parent.is_dir():
            raise ValueError(f"{out.parent} is not a folder: create it, or write another name with --out")
        check_run(self.run_folder)
        check_exists(self.data)
        check_supported(self.data, single=True)

        with importing():
            from tauleap.cli.run.score import run

        run(self, out)
