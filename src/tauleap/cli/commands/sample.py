"""The options of ``tauleap sample``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tauleap._files import owned
from tauleap._seeds import check_seed
from tauleap.cli.help import Metavar
from tauleap.cli.options import (
    DeviceName,
    ImageFileFormat,
    Json,
    RunFolder,
    SamplerOption,
    Shard,
    Steps,
    Temperature,
    Tolerance,
    at_least,
    check_run,
    check_steps,
    check_temperature,
)
from tauleap.cli.samplers import SamplerChoice, check_option
from tauleap.cli.signals import importing

_MAX_SAMPLES = 10**8


@dataclass(frozen=True)
class Sample:
    """Sample from a trained model and write files in the format of its data.

    If sampling was interrupted, run the same command again to resume.
    """

    GROUPS: ClassVar = {
        "sampling": (
            *("n", "given", "steps", "tol", "sampler", "sampler_option", "temperature", "label", "guidance", "seed"),
            *("correctors", "corrector_scale", "corrector_start"),
        ),
        "resource": ("batch_size", "memory", "device", "shard"),
        "output": ("out", "format", "json"),
    }
    EXAMPLES: ClassVar = (
        "tauleap sample toy -n 1000",
        "tauleap sample runs/adult -n 10000 --seed 1 --out more-samples",
        "tauleap sample runs/adult --tol 0.05    # as many steps as a tuned model needs for this error",
        "tauleap sample runs/adult --given sex=Female age=30:40 'education=Bachelors|Masters'",
        "tauleap sample mnist-small -n 20 --label 0,1,2 --guidance 2",
        "tauleap sample runs/adult -n 1000000 --shard 1/4   # one of four processes, same --out for all",
    )

    run_folder: RunFolder
    n: int = 64
    """Number of samples, 1 to 100,000,000; also -n."""
    given: Annotated[tuple[str, ...], Metavar("COLUMN=VALUE ...")] = ()
    """Conditions on columns of a table: a value, a range of numbers LOW:HIGH or dates LOW..HIGH whose ends are included
    (either may be left out), categories A|B, or COLUMN= for a missing value. Default: none."""
    steps: Steps = None
    tol: Tolerance = None
    sampler: SamplerChoice = None
    sampler_option: SamplerOption = None
    temperature: Temperature = 1.0
    label: str | None = None
    """Class label of a class-conditional model, from 0, or a value of each column of labels, such as "active=yes,
    logp=1.7"; several such as 0,1,2 or "active=yes; active=no" are used in turn. Default: no label."""
    guidance: float = 1.0
    """Guidance scale, > 0; needs --label. Above 1: stronger class conditioning, less diversity, twice the time."""
    out: Path | None = None
    """Folder for the samples: new, empty, or of the same command. Default: NAME-samples."""
    seed: int = 0
    """Random seed, 0 to 2^63 - 1; the same seed and --batch-size give the same samples."""
    batch_size: int | None = None
    """Samples per batch, >= 1. Default: as many as --memory allows, or as before when sampling is resumed."""
    memory: float | None = None
    """Gigabytes per batch, > 0, instead of --batch-size. Default: 1 on a CPU, a quarter of an accelerator's memory."""
    device: DeviceName = "auto"
    shard: Annotated[str | None, Metavar("I/N")] = None
    """Sample the part of process I of N, such as 2/4, when N processes share the work. Default: all samples."""
    format: ImageFileFormat | None = None
    """Files of images: png, one file per image; npy, one uint8 array (n, channels, height, width). Default: png."""
    correctors: int = 0
    """Corrector steps after each sampling step, >= 0; one network evaluation each. For the same time they can be better
    or worse than more --steps: compare both on your model."""
    corrector_scale: float | None = None
    """Length of a corrector step, > 0, in lengths of a sampling step; needs --correctors. Default: 1."""
    corrector_start: float | None = None
    """Run correctors only at times below this one, in (0, 1]; needs --correctors. Default: 1, at all times."""
    json: Json = False

    def run(self) -> None:
        """Check the options, sample, and print where the files are."""
        scale, start = self._corrector()
        at_least("--n", self.n, 1)
        if self.n > _MAX_SAMPLES:
            raise ValueError(
                f"--n must be <= {_MAX_SAMPLES:,}, got {self.n:,}: for more, run again with another --seed and --out"
            )
        check_steps(self.steps, self.tol)
        check_temperature(self.temperature)
        if not 0 < self.guidance < math.inf:
            raise ValueError(f"--guidance must be a finite number > 0, got {self.guidance}")
        if self.guidance != 1 and self.label is None:
            raise ValueError("--guidance needs --label: write the class label, such as --label 3")
        if self.batch_size is not None and self.memory is not None:
            raise ValueError("--batch-size and --memory both set the batch size: write only one of them")
        if self.batch_size is not None:
            at_least("--batch-size", self.batch_size, 1)
        shard = Shard.read(self.shard)
        check_run(self.run_folder)
        check_seed(self.seed, name="--seed")
        check_option(self.sampler, self.sampler_option)
        out = self.out or Path(f"{self.run_folder.resolve().name}-samples")
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
                raise ValueError(f"{option} needs --correctors: write how many, such as --correctors 1")
        scale = 1.0 if self.corrector_scale is None else self.corrector_scale
        start = 1.0 if self.corrector_start is None else self.corrector_start
        if not 0 < scale < math.inf:
            raise ValueError(f"--corrector-scale must be a finite number > 0, got {scale}")
        if not 0 < start <= 1:
            raise ValueError(f"--corrector-start must be a time in (0, 1], got {start}")
        return scale, start
