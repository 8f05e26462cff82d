"""The command line: parses, calls, prints.

A command is a frozen dataclass in a file of its own: its fields are the options, its docstrings the help, ``run`` the
work; what has no default is given by its place. Parsing is kept apart from running, so that an error of the library is
not taken for a mistyped option. Nothing heavy is imported until a command runs: help must not wait for torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Protocol

from tauleap._version import __version__
from tauleap.cli.demo import Demo
from tauleap.cli.train import Train


class Command(Protocol):
    """What every entry of :data:`COMMANDS` makes from the options."""

    def run(self) -> None:
        """Does the work; a ValueError, TypeError or OSError is the user's to read."""
        ...


COMMANDS: dict[str, type[Command]] = {"demo": Demo, "train": Train}
"""The subcommands, in the order of the help."""

_DESCRIPTION = (
    "Continuous-time diffusion for discrete data. "
    "`tauleap COMMAND --help` lists a command's options, `tauleap --version` prints the version; "
    "with TAULEAP_TRACEBACK=1 in the environment an error shows where it came from."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code: 0, 2 for a user's error, 130 when interrupted."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(f"tauleap {__version__}")
        return 0

    import tyro

    command: Command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="tauleap",
        description=_DESCRIPTION,
        args=given,
        config=(tyro.conf.PositionalRequiredArgs,),
    )
    try:
        command.run()
    except (ValueError, TypeError, OSError) as error:
        if os.environ.get("TAULEAP_TRACEBACK") == "1":
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"tauleap: error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
