"""Types and checks of options that several commands share; torch is not needed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typing_extensions import Doc

from tauleap import _shipped

RunFolder = Annotated[
    Path,
    Doc(
        "Folder of a run or a saved model, or the name of one that comes with the package: "
        f"{', '.join(_shipped.names())}."
    ),
]
DeviceName = Annotated[str, Doc("Where to compute: cpu, cuda, cuda:1, mps, ...; auto is the accelerator, if any.")]
ImageFileFormat = Literal["png", "npy"]


@dataclass(frozen=True)
class Shard:
    """One of several processes: it makes block ``index`` of the list, and every ``count``-th after it.

    Args:
        index: The number of the process, from 1.
        count: How many processes there are.

    >>> Shard.read("2/3").of(range(0, 80, 10))
    [10, 40, 70]
    """

    index: int
    count: int

    @staticmethod
    def read(text: str | None) -> Shard:
        """Return a shard as it is written after ``--shard``; None is the only one.

        Args:
            text: Such as "2/4".
        """
        if text is None:
            return Shard(1, 1)
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"--shard must be I/N with I from 1 to N, such as 1/4, 2/4, 3/4 and 4/4, got {text!r}")
        return Shard(int(match[1]), int(match[2]))

    def of(self, places: range) -> list[int]:
        """Return those blocks that are of this shard.

        Args:
            places: The first rows of all blocks.
        """
        return list(places[self.index - 1 :: self.count])

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def check_run(run: Path) -> None:
    """Raise ValueError where ``run`` is neither a folder nor the name of a model of the package.

    Args:
        run: The path or name, as it was typed.
    """
    if not run.is_dir() and (run.exists() or str(run) not in _shipped.names()):
        raise ValueError(
            f"{run} is not a folder of a run: write the folder that `tauleap train` has made, or one of the models of "
            f"the package: {', '.join(_shipped.names())}"
        )


def check_exists(path: Path) -> None:
    """Raise ValueError where there is nothing to read at ``path``.

    Args:
        path: A file or folder, as it was typed.
    """
    if not path.exists():
        raise ValueError(f"{path} is not a file: nothing of this name exists")


def at_least(option: str, value: int, least: int) -> int:
    """Return a number, or raise ValueError where it is too small.

    Args:
        option: The name of the option, for the message.
        value: The number.
        least: The smallest number that is accepted.
    """
    if value < least:
        raise ValueError(f"{option} must be >= {least}, got {value}")
    return value


def check_temperature(temperature: float) -> None:
    """Raise ValueError unless logits can be divided by a temperature.

    Args:
        temperature: The value of ``--temperature``.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"--temperature must be a finite number > 0, got {temperature}")
