"""Types and checks of options that several commands share; torch is not needed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import Doc

from tauleap import _shipped
from tauleap._defaults import SAMPLING_STEPS
from tauleap.cli.help import Metavar

RunFolder = Annotated[
    Path,
    Doc(f"Folder of a training run or of a saved model, or a shipped model: {', '.join(_shipped.NAMES)}."),
    Metavar("MODEL"),
]
DeviceName = Annotated[
    str, Doc("Device: cpu, cuda, cuda:1, mps, ... Default: auto, the accelerator if there is one."), Metavar("DEVICE")
]
Steps = Annotated[
    int | None,
    Doc(
        "Largest number of sampling steps, >= 1. More take longer; beyond some number the network's error dominates. "
        f"Default: {SAMPLING_STEPS}, or as many as --tol needs."
    ),
]
Tolerance = Annotated[
    float | None,
    Doc(
        "Largest predicted error of the sampling steps in nats per row, > 0, instead of --steps, for a tuned model "
        "(see `tauleap tune`). Default: no tolerance."
    ),
]
SamplerOption = Annotated[
    str | None,
    Doc(
        "Parameter of the sampler: look_ahead=0.5 (ancestral), theta=0.5 (trapezoidal), step=0.001 (next-reaction), "
        "multiple_jumps=add, reject or last (tau-leaping), order=random, confidence, margin or entropy (planned)."
    ),
    Metavar("NAME=VALUE"),
]
Temperature = Annotated[
    float, Doc("Divide the logits by this number, > 0. Below 1: more probable and less diverse results.")
]
Json = Annotated[bool, Doc("Print one JSON object instead of text.")]
ImageFileFormat = Literal["png", "npy"]


@dataclass(frozen=True)
class Shard:
    """Identify one of several processes that share the blocks: it samples every ``count``-th, from ``index``.

    Args:
        index: The number of the process, from 1.
        count: How many processes there are.

    >>> Shard.read("2/3")
    Shard(index=2, count=3)
    """

    index: int
    count: int

    @staticmethod
    def read(text: str | None) -> Shard:
        """Return the shard that ``--shard`` names.

        Args:
            text: The value of the option, such as "2/4"; None for one process.

        Raises:
            ValueError: The text is not I/N with 1 <= I <= N.
        """
        if text is None:
            return Shard(1, 1)
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"--shard must be I/N with I from 1 to N, such as 1/4, 2/4, 3/4 and 4/4, got {text!r}")
        return Shard(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def check_run(run: Path) -> None:
    """Raise ValueError if ``run`` is neither a folder nor the name of a shipped model.

    Args:
        run: The path or name.
    """
    if not run.is_dir() and (run.exists() or str(run) not in _shipped.NAMES):
        raise ValueError(
            f"{run} is not a folder of a run: write a folder that `tauleap train` has created, or a shipped model: "
            f"{', '.join(_shipped.NAMES)}"
        )


def check_exists(path: Path) -> None:
    """Raise ValueError if a path does not exist.

    Args:
        path: A file or folder.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist: write the name of a file or folder")


def at_least(option: str, value: int, least: int) -> int:
    """Return a number, or raise ValueError if it is too small.

    Args:
        option: The name of the option, for the message.
        value: The number.
        least: The smallest number that is accepted.
    """
    if value < least:
        raise ValueError(f"{option} must be >= {least}, got {value}")
    return value


def check_steps(steps: int | None, tol: float | None) -> None:
    """Raise ValueError unless at most one of two options is given, and it is in its range.

    Args:
        steps: The value of ``--steps``.
        tol: The value of ``--tol``.
    """
    if steps is not None:
        at_least("--steps", steps, 1)
    if tol is not None and not 0 < tol < math.inf:
        raise ValueError(f"--tol must be a finite number > 0, got {tol}")
    if steps is not None and tol is not None:
        raise ValueError("--tol decides the number of steps, so it excludes --steps: write only one of them")


def check_temperature(temperature: float) -> None:
    """Raise ValueError unless a temperature is finite and > 0.

    Args:
        temperature: The value of ``--temperature``.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"--temperature must be a finite number > 0, got {temperature}")
