"""The options of ``tauleap demo music``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tauleap._files.full_disk import explaining_full_disk
from tauleap._seeds import check_seed
from tauleap.cli.demo_folder import claim_demo_folder
from tauleap.cli.options import at_least
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class DemoMusic:
    """Let a model of the package play the Ode to Joy on: MIDI, sound and piano rolls, in seconds (also: demo music)."""

    out: Path = Path("tauleap-music")
    """Folder for the files: new, empty, or of an earlier demo."""
    steps: int = 100
    """The number of steps of the reverse chain, >= 1; the time grows with it."""
    seed: int = 0
    """The same seed gives the same melodies."""
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Continue the melody, write and draw it; print the melodies and where the files are."""
        check_seed(self.seed, name="--seed")
        at_least("--steps", self.steps, 1)
        with explaining_full_disk(self.out):
            claim_demo_folder(self.out)

            with importing():
                from tauleap.cli.run.demo_music import run

            run(self)
