"""The options of ``tauleap demo music``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tauleap._files.full_disk import explaining_full_disk
from tauleap._seeds import check_seed
from tauleap.cli.demo_folder import claim_demo_folder
from tauleap.cli.options import Json, at_least
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class DemoMusic:
    """Continue the Ode to Joy with a shipped model, as MIDI, sound and piano rolls (seconds; also `demo music`)."""

    GROUPS: ClassVar = {"sampling": ("steps", "seed"), "output": ("out", "json")}
    EXAMPLES: ClassVar = ("tauleap demo music", "tauleap demo music --seed 7 --out melodies")

    out: Path = Path("tauleap-music")
    """Folder for the files: new, empty, or of an earlier demo."""
    steps: int = 100
    """Number of sampling steps, >= 1."""
    seed: int = 0
    """Random seed, 0 to 2^63 - 1; the same seed gives the same melodies."""
    json: Json = False

    def run(self) -> None:
        """Continue the melody, write and draw it; print the melodies and where the files are."""
        check_seed(self.seed, name="--seed")
        at_least("--steps", self.steps, 1)
        with explaining_full_disk(self.out):
            claim_demo_folder(self.out)

            with importing():
                from tauleap.cli.run.demo_music import run

            run(self)
