"""The command line: parses, calls, prints.

A command is a frozen dataclass in a file of its own: its fields are the options, its docstrings the help, ``run`` the
work; what has no default is given by its place. Parsing is kept apart from running, so that an error of the library is
not taken for a mistyped option. Nothing heavy is imported until a command runs: help must not wait for torch.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from tauleap._printable import printable
from tauleap._version import __version__
from tauleap.cli.complete import Complete
from tauleap.cli.demo import Demo
from tauleap.cli.demo_music import DemoMusic
from tauleap.cli.evaluate import Evaluate
from tauleap.cli.info import Info
from tauleap.cli.sample import Sample
from tauleap.cli.train import Train


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

_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the system that are no fault of what was typed."""

_NO_MEMORY = ("allocate memory", "out of memory")

_DESCRIPTION = (
    "Continuous-time diffusion for discrete data. "
    "`tauleap COMMAND --help` lists a command's options, `tauleap --version` prints the version; "
    "with TAULEAP_TRACEBACK=1 in the environment an error shows where it came from."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    0 when all went well, 1 when the machine failed (no memory, a full disk, a loss that is not a number), 2 for a
    user's error, 130 when interrupted.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["sample"]:  # tyro has no short names of this kind
        given = ["--n" if word == "-n" else word for word in given]
    if given[:2] == ["demo", "music"]:
        given = ["demo-music", *given[2:]]
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
        message = printable(" ".join(str(error).split())) or type(error).__name__
        print(f"tauleap: error: {message}", file=sys.stderr)
        return 1 if isinstance(error, OSError) and error.errno in _FAILURES else 2
    except (MemoryError, RuntimeError) as error:
        # torch has no class of its own for memory that a CPU has not got.
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in _NO_MEMORY):
            raise
        print("tauleap: error: there is not enough memory: write a smaller --batch-size, or less data", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
