"""The options of ``tauleap demo``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tauleap._files.full_disk import explaining_full_disk
from tauleap._seeds import check_seed
from tauleap.cli.demo_folder import claim_demo_folder
from tauleap.cli.options import Json
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Demo:
    """Train on two-dimensional points, compare exact simulation with tau-leaping, and draw both (about 2 minutes)."""

    GROUPS: ClassVar = {"training": ("quick", "seed"), "output": ("out", "json")}
    EXAMPLES: ClassVar = ("tauleap demo", "tauleap demo --quick --out /tmp/demo", "tauleap demo music")

    out: Path = Path("tauleap-demo")
    """Folder for figure, animation, samples, metrics and model: new, empty, or of an earlier demo."""
    quick: bool = False
    """Train for a few seconds only, to check the installation."""
    seed: int = 0
    """Random seed of training and sampling, 0 to 2^63 - 1."""
    json: Json = False

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
            message = f"{error.strerror}: the folder is not writable, write another one with --out"
            raise OSError(error.errno, message, str(self.out)) from error
        model = self.out / "model"
        if model.exists() and not (model / "config.json").is_file():
            raise ValueError(f"{model} exists and is not a model of tauleap: write another folder with --out")
