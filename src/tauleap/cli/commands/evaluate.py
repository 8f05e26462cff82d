"""The options of ``tauleap evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.options import DeviceName, RunFolder, at_least, check_exists, check_run
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Evaluate:
    """Say how well a model knows data: bits/dim, an upper bound on -log2 p, lower is better."""

    run_folder: RunFolder
    data: Path
    """Data of the kind that the model was trained on, but not the same rows."""
    observed: str | None = None
    """Sites that are given, such as 0:32,40 or names of columns: then it is bits/dim of the others, given these."""
    samples: int = 16
    """Times of the chain for each row: more makes the standard error smaller, and takes longer."""
    rows: int | None = None
    """Look at the first rows only."""
    seed: int = 0
    """The same seed gives the same number."""
    device: DeviceName = "auto"
    json: bool = False
    """Print one object for scripts instead of text."""

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
