"""The subcommands. A command is a frozen dataclass in a file of its own.

Its fields are the options, its docstrings the help, and ``run`` the work; fields without a default are positional.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tauleap.cli.complete import Complete
from tauleap.cli.demo import Demo
from tauleap.cli.demo_music import DemoMusic
from tauleap.cli.evaluate import Evaluate
from tauleap.cli.info import Info
from tauleap.cli.sample import Sample
from tauleap.cli.train import Train


@runtime_checkable
class Command(Protocol):
    """What every entry of :data:`COMMANDS` makes from the options."""

    def run(self) -> None:
        """Does the work; a ValueError, TypeError or OSError is the user's to read."""
        ...


COMMANDS: dict[str, type[Command]] = {
    "demo": Demo,
    "demo-music": DemoMusic,
    "train": Train,
    "sample": Sample,
    "complete": Complete,
    "evaluate": Evaluate,
    "info": Info,
}
"""The subcommands, in the order of the help."""
