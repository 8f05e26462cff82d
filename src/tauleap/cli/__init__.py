"""The command line: parse the options, run the command, print the result.

This file imports nothing, so that Ctrl-C during any later import ends the command without a traceback. Parsing is
separate from running, so that an error of the library is not reported as a mistyped option. A command imports torch
only after it has checked its options: help and error messages must be fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tauleap.cli.commands import COMMANDS as COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    >>> main(["--version"])
    tauleap 0.1.0
    0

    Args:
        arguments: The words after ``tauleap``. Default: None, those of the process, which then also handles signals.

    Returns:
        0 for success; 1 if the machine failed (no memory, a full disk, a loss that is not finite); 2 for invalid
        arguments or input; 130, 143 and 129 after Ctrl-C, SIGTERM and SIGHUP; 141 if the reader of a pipe has closed
        it, which does not stop the work: all files are written.

    Raises:
        SystemExit: With the same codes, after ``--help`` and for arguments that cannot be parsed.
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
