"""The options of ``tauleap evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.help import Metavar
from tauleap.cli.options import DeviceName, Json, RunFolder, at_least, check_exists, check_run
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Evaluate:
    """Print bits/dim of held-out data: an upper bound on -log2 p(x) per site, lower is better."""

    GROUPS: ClassVar = {
        "evaluation": ("observed", "samples", "rows", "seed", "device"),
        "output": ("json",),
    }
    EXAMPLES: ClassVar = (
        "tauleap evaluate runs/adult test.csv",
        "tauleap evaluate runs/adult test.csv --observed age,sex    # bits/dim of the other columns, given these",
    )

    run_folder: RunFolder
    data: Annotated[Path, Metavar("DATA")]
    """File or folder of the same kind as the training data, with other rows."""
    observed: str | None = None
    """Condition on these sites and measure the others: positions from 0 (0:32,40) or column names. Default: none."""
    samples: int = 16
    """Random times per row, >= 1. More take longer and give a smaller standard error."""
    rows: int | None = None
    """Use only this many rows from the beginning, >= 1. Default: all."""
    seed: int = 0
    """Random seed, 0 to 2^63 - 1; the same seed gives the same result."""
    device: DeviceName = "auto"
    json: Json = False

    def run(self) -> None:
        """Check the options, compute bits/dim, and print it with its standard error."""
        at_least("--samples", self.samples, 1)
        check_seed(self.seed, name="--seed")
        if self.rows is not None:
            at_least("--rows", self.rows, 1)
        check_run(self.run_folder)
        check_exists(self.data)
        check_supported(self.data, single=True)

        with importing():
            from tauleap.cli.run.evaluate import run

        run(self)
