"""The options of ``tauleap demo``; the work is in ``dissolve.py``, which waits because it imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    """Show a tau dissolving into noise: a PNG of the exact laws, a GIF of points on their way."""

    out: Path = Path("tauleap-demo")
    """Folder for the pictures; it is made when it does not exist."""
    points: int = 1500
    """How many points move in the GIF."""
    seed: int = 0
    """Seed of the points: the same seed gives the same GIF."""
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Draws the pictures, prints the table and where the files are."""
        if self.points < 1:
            raise ValueError(f"--points must be >= 1, got {self.points}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"--seed must be between 0 and 2**63 - 1, got {self.seed}")
        self.out.mkdir(parents=True, exist_ok=True)

        from tauleap.cli.dissolve import dissolve

        dissolve(self.out, points=self.points, seed=self.seed, as_json=self.json)
