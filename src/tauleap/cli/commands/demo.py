"""The options of ``tauleap demo``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tauleap._files.full_disk import explaining_full_disk
from tauleap._seeds import check_seed
from tauleap.cli.demo_folder import claim_demo_folder
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Demo:
    """Train on points that form a tau, sample by exact simulation and by tau-leaping, and measure both: two minutes."""

    out: Path = Path("tauleap-demo")
    """Folder for the figure, the film, the samples, the numbers and the model: new, empty, or of an earlier demo."""
    quick: bool = False
    """A few seconds of training only, to see that everything works."""
    seed: int = 0
    """Of the weights, the noise and the samples."""
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Train, sample, measure and draw; print the table and where the files are."""
        check_seed(self.seed, name="--seed")
        with explaining_full_disk(self.out):
            claim_demo_folder(self.out)
            self._check_place()

            with importing():
                from tauleap.cli.run.demo import run

            run(self)

    def _check_place(self) -> None:
        """Raise an error at once where files could not be written after minutes of work."""
        try:
            with tempfile.TemporaryFile(dir=self.out):
                pass
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}: nothing can be written there", str(self.out)) from error
        model = self.out / "model"
        if model.exists() and not (model / "config.json").is_file():
            raise ValueError(f"{model} is there and is not a model: write another --out")
