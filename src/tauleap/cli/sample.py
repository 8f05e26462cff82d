"""The options of ``tauleap sample``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tauleap.cli.runs import SamplerName, at_least, seeded, tell, warm

_MOST = 10**8


@dataclass(frozen=True)
class Sample:
    """Draw samples of a trained model, in the data's own form. The same command again goes on where it was stopped."""

    run_folder: Path
    """Folder of a run or a saved model, or the name of one that comes with the package: toy, music-small."""
    n: int = 64
    """How many samples (also -n)."""
    steps: int = 200
    """Of the reverse chain: more is better and slower."""
    sampler: SamplerName = "ancestral"
    """How a step is made."""
    temperature: float = 1.0
    """The logits are divided by it: below 1 samples are likelier and less various."""
    out: Path | None = None
    """Folder for the samples; NAME-samples by default."""
    seed: int = 0
    """The same seed gives the same samples."""
    batch_size: int | None = None
    """How many are made at a time; it is part of what a seed means."""
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Draws and writes; says where the files are."""
        at_least("--n", self.n, 1)
        if self.n > _MOST:
            raise ValueError(f"--n must be <= {_MOST:,}, got {self.n:,}: draw more into other folders, by other seeds")
        at_least("--steps", self.steps, 1)
        seeded(self.seed)
        warm(self.temperature)
        out = self.out or Path(f"{self.run_folder.resolve().name}-samples")

        from tauleap.cli.drawing import Request, draw_to
        from tauleap.cli.runs import fingerprint, open_run, rows_at_once

        model, form = open_run(self.run_folder)
        size = rows_at_once(model, self.batch_size)
        request = Request(
            fingerprint(model), self.n, self.steps, self.sampler, self.temperature, self.seed, min(size, self.n)
        )
        files, first = draw_to(out, model, form, request, progress=not self.json)
        shown = ["there already:"] if first is None else [form.show(first, 1 if form.kind == "images" else 3)]
        lines = [*shown, f"{self.n} samples: {_where(files, out)}"]
        tell(self.json, {"run": str(self.run_folder), "n": self.n, "files": [str(path) for path in files]}, lines)


def _where(files: list[Path], out: Path) -> str:
    return str(files[0]) if len(files) == 1 else f"{len(files)} files in {out}"
