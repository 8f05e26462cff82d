"""The subcommands. A command is a frozen dataclass in a file with its name.

Its fields are the options, its docstrings the help; fields without a default are positional. ``run`` checks the options
and calls the function ``run`` of the file with the same name in ``cli/run/``, which imports torch.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tauleap.cli.commands.complete import Complete
from tauleap.cli.commands.demo import Demo
from tauleap.cli.commands.demo_music import DemoMusic
from tauleap.cli.commands.evaluate import Evaluate
from tauleap.cli.commands.info import Info
from tauleap.cli.commands.sample import Sample
from tauleap.cli.commands.score import Score
from tauleap.cli.commands.train import Train
from tauleap.cli.commands.tune import Tune


@runtime_checkable
class Command(Protocol):
    """Define a command with its options."""

    def run(self) -> None:
        """Run the command; a ValueError, TypeError or OSError is a message for the user."""
        ...


COMMANDS: dict[str, type[Command]] = {
    "demo": Demo,
    "demo-music": DemoMusic,
    "train": Train,
    "sample": Sample,
    "complete": Complete,
    "evaluate": Evaluate,
    "score": Score,
    "tune": Tune,
    "info": Info,
}
"""The subcommands, in the order of the help."""
