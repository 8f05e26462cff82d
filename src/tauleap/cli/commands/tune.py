"""The options of ``tauleap tune``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tauleap import _shipped
from tauleap._files import owned
from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.help import Metavar
from tauleap.cli.options import DeviceName, Json, RunFolder, at_least, check_exists, check_run
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Tune:
    """Measure how the error of sampling depends on its steps, and store the best steps with the model.

    A tuned model uses the best steps for each number of them, and --tol of `tauleap sample` finds the number of steps
    for an error. `tauleap train` tunes models at the end where that takes little time.
    """

    GROUPS: ClassVar = {"tuning": ("rows", "seconds", "seed", "device"), "output": ("out", "json")}
    EXAMPLES: ClassVar = (
        "tauleap tune runs/adult test.csv",
        "tauleap tune music-small songs.npy --out tuned-music    # a shipped model is not changed, but copied",
    )

    run_folder: RunFolder
    data: Annotated[Path, Metavar("DATA")]
    """File or folder of the same kind as the training data, with other rows."""
    rows: int = 4096
    """Largest number of rows, >= 1; of more, as many random ones are used."""
    seconds: float = 60.0
    """Time limit, > 0. More rows give a smaller standard error."""
    seed: int = 0
    """Random seed, 0 to 2^63 - 1; the same seed gives the same result unless the time limit is reached."""
    device: DeviceName = "auto"
    out: Path | None = None
    """New folder for a tuned copy of the model. Default: the tuning is stored in MODEL."""
    json: Json = False

    def run(self) -> None:
        """Check the options, tune the model, and print predicted errors."""
        at_least("--rows", self.rows, 1)
        check_seed(self.seed, name="--seed")
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"--seconds must be a finite number > 0, got {self.seconds}")
        check_run(self.run_folder)
        check_exists(self.data)
        check_supported(self.data, single=True)
        if self.out is None and not self.run_folder.is_dir() and str(self.run_folder) in _shipped.NAMES:
            raise ValueError(f"{self.run_folder} is part of the package and not changed: write --out FOLDER for a copy")
        if self.out is not None:
            owned.check_no_file(self.out, "the model")

        with importing():
            from tauleap.cli.run.tune import run

        run(self)
