"""The options of ``tauleap sample``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tauleap._defaults import SAMPLING_STEPS
from tauleap._files import owned
from tauleap._seeds import check_seed
from tauleap.cli.options import (
    DeviceName,
    ImageFileFormat,
    RunFolder,
    Shard,
    at_least,
    check_run,
    check_temperature,
)
from tauleap.cli.samplers import SamplerName, check_option
from tauleap.cli.signals import importing

_MOST = 10**8


@dataclass(frozen=True)
class Sample:
    """Draw samples of a trained model, in the data's own form. The same command again goes on where it was stopped."""

    run_folder: RunFolder
    n: int = 64
    """How many samples (also -n)."""
    steps: int = SAMPLING_STEPS
    """The largest number of steps, >= 1; time and accuracy grow with it, up to the network's own error."""
    sampler: SamplerName | None = None
    """How a step is made; selected for the model and the steps by default, and printed."""
    sampler_option: str | None = None
    """Its parameter: look_ahead=0.5 (ancestral), theta=0.5 (trapezoidal), step=0.001 (next-reaction),
    multiple_jumps=add, reject or last (tau-leaping)."""
    temperature: float = 1.0
    """The logits are divided by it: below 1 samples are likelier and less various."""
    label: str | None = None
    """Of a model that was trained with labels: the one to draw, or several such as 0,1,2, dealt out in turn."""
    guidance: float = 1.0
    """How loud the labels are: above 1 samples are more clearly of their label, and less various; twice the time."""
    out: Path | None = None
    """Folder for the samples; NAME-samples by default."""
    seed: int = 0
    """The same seed gives the same samples."""
    batch_size: int | None = None
    """How many are made at a time, part of what a seed means; that of the folder where it goes on, or by --memory."""
    memory: float | None = None
    """About how many gigabytes a batch may take, instead of --batch-size: 1 on a CPU by default, a quarter of an
    accelerator's memory else."""
    device: DeviceName = "auto"
    shard: str | None = None
    """I/N, such as 2/4: this process makes every N-th part from the I-th; the N of them give the samples of one."""
    format: ImageFileFormat | None = None
    """Of pictures: png, a file each, by default; or npy, one array (n, channels, height, width) of uint8."""
    correctors: int = 0
    """Corrector steps per step (Section 4.4), one evaluation each; compare with as many more --steps."""
    corrector_scale: float | None = None
    """Their length, in steps of the sampler; 1 by default."""
    corrector_start: float | None = None
    """They run at times below this one; 1, everywhere, by default."""
    json: bool = False
    """Print one object for scripts instead of text."""

    def run(self) -> None:
        """Check the options, sample, and print where the files are."""
        at_least("--n", self.n, 1)
        if self.n > _MOST:
            raise ValueError(f"--n must be <= {_MOST:,}, got {self.n:,}: draw more into other folders, by other seeds")
        at_least("--steps", self.steps, 1)
        check_seed(self.seed, name="--seed")
        check_temperature(self.temperature)
        if not 0 < self.guidance < math.inf:
            raise ValueError(f"--guidance must be a finite number > 0, got {self.guidance}")
        if self.guidance != 1 and self.label is None:
            raise ValueError("--guidance needs --label, the label that is to be louder")
        if self.batch_size is not None and self.memory is not None:
            raise ValueError("--batch-size and --memory both say how many are made at a time: write one of them")
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1)
        shard = Shard.read(self.shard)
        scale, start = self._corrector()
        check_option(self.sampler, self.sampler_option)
        out = self.out or Path(f"{self.run_folder.resolve().name}-samples")
        check_run(self.run_folder)
        owned.check_no_file(out, "the samples")

        with importing():
            from tauleap.cli.run.sample import run

        run(self, out, shard, scale, start)

    def _corrector(self) -> tuple[float, float]:
        """Return scale and start; they are checked here, so that messages name the options."""
        at_least("--correctors", self.correctors, 0)
        for option, value in (
            ("--corrector-scale", self.corrector_scale),
            ("--corrector-start", self.corrector_start),
        ):
            if value is not None and self.correctors == 0:
                raise ValueError(f"{option} needs --correctors, the number of corrector steps")
        scale = 1.0 if self.corrector_scale is None else self.corrector_scale
        start = 1.0 if self.corrector_start is None else self.corrector_start
        if not 0 < scale < math.inf:
            raise ValueError(f"--corrector-scale must be a finite number > 0, got {scale}")
        if not 0 < start <= 1:
            raise ValueError(f"--corrector-start must be a time in (0, 1], got {start}")
        return scale, start
