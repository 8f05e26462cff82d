"""The command line: parses, calls, prints.

This file imports nothing, so that :func:`main` is reached at once and Ctrl-C during any later import ends the command
without a traceback. Parsing is kept apart from running, so that an error of the library is not taken for a mistyped
option. torch is not imported until a command has checked its options: help and refusals must not wait for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tauleap.cli.commands import COMMANDS as COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 when all went well, 1 when the machine failed (no memory, a full disk, a loss that is not a number), 2 for a
    user's error; 130, 143 and 129 when stopped by Ctrl-C, SIGTERM and SIGHUP, and 141 when the reader of a pipe has
    left before the end. Work continues without a reader: the files are written.

    Args:
        arguments: the words after ``tauleap``; by default those of the process, which then also handles signals.
    """
    try:
        from tauleap.cli.entry import run

        return run(arguments)
    except KeyboardInterrupt as stopped:
        return 128 + getattr(stopped, "signal", 2)


def __getattr__(name: str) -> object:
    if name == "COMMANDS":
        from tauleap.cli.commands import COMMANDS

        return COMMANDS
    raise AttributeError(f"module 'tauleap.cli' has no attribute {name!r}")
