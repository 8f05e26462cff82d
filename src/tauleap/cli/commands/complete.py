"""The options of ``tauleap complete``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tauleap._defaults import SAMPLING_STEPS
from tauleap._files import owned
from tauleap._formats import check_supported
from tauleap._seeds import check_seed
from tauleap.cli.options import (
    DeviceName,
    RunFolder,
    at_least,
    check_exists,
    check_run,
    check_temperature,
)
from tauleap.cli.samplers import SamplerName, check_option
from tauleap.cli.signals import importing


@dataclass(frozen=True)
class Complete:
    """Fill in what is not known: empty cells, the end of a text or a melody, transparent pixels, or any sites."""

    run_folder: RunFolder
    file: tuple[Path, ...]
    """What to complete, of the model's kind; without it a model of music plays the Ode to Joy on."""
    observed: str | None = None
    """The sites that are known, such as 0:32,40 or names of columns; all others are filled in."""
    variants: int = 1
    """How many completions of each row."""
    steps: int = SAMPLING_STEPS
    """The largest number of steps, >= 1; time and accuracy grow with it, up to the network's own error."""
    sampler: SamplerName | None = None
    """How a step is made; selected for the model and the steps by default, and printed."""
    sampler_option: str | None = None
    """Its parameter, as of `tauleap sample`."""
    temperature: float = 1.0
    """The logits are divided by it: below 1 completions are likelier and less various."""
    out: Path | None = None
    """Folder for the result, which must be new; FILE-completed by default."""
    seed: int = 0
    """The same seed gives the same completions."""
    batch_size: int | None = None
    """How many rows are worked on at a time; it is part of what a seed means."""
    device: DeviceName = "auto"
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Check the options, complete the rows, and print where the files are."""
        at_least("--variants", self.variants, 1)
        at_least("--steps", self.steps, 1)
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1)
        check_seed(self.seed, name="--seed")
        check_temperature(self.temperature)
        check_option(self.sampler, self.sampler_option)
        if len(self.file) > 1:
            raise ValueError(f"one file is completed at a time, got {len(self.file)}: {', '.join(map(str, self.file))}")
        file = self.file[0] if self.file else None
        out = self.out or Path(f"{'opening' if file is None else file.stem}-completed")
        owned.remove_abandoned(out)
        if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
            raise ValueError(f"{out} is there already: write another folder with --out")
        check_run(self.run_folder)
        if file is not None:
            check_exists(file)
            check_supported(file, single=True)

        with importing():
            from tauleap.cli.run.complete import run

        run(self, file, out)
