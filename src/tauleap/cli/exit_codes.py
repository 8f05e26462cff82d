"""The exit codes of the command line, and the line on the standard error that explains each.

0 success, 1 the machine failed, 2 invalid arguments or input, 128 + N stopped by signal N.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from tauleap._files.full_disk import FULL_DISK
from tauleap._files.printable import printable
from tauleap._files.safe_read import is_out_of_memory

FAILED = 1
INVALID = 2
BROKEN_PIPE = 128 + signal.SIGPIPE
"""The exit code that a shell reports for a program that SIGPIPE has ended, since the reader of its pipe has gone."""
_FAILURES = (*FULL_DISK, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Numbers of an OSError that the machine causes; all others are invalid input, such as the name of a missing file."""


def report(error: BaseException, words: Sequence[str]) -> int | None:
    """Print one line about an error and return the exit code; None if a traceback should be printed instead.

    Args:
        error: The exception that ended the command.
        words: The arguments of the command line.
    """
    if isinstance(error, ValueError | TypeError | OSError):
        if os.environ.get("TAULEAP_TRACEBACK") == "1":
            return None
        # An error about a table has one line per problem.
        parts = str(error).splitlines() if hasattr(error, "problems") else [str(error)]
        for part in parts or [""]:
            message = printable(" ".join(part.split())) or type(error).__name__
            print(f"tauleap: error: {message}", file=sys.stderr)
        return FAILED if isinstance(error, OSError) and error.errno in _FAILURES else INVALID
    if isinstance(error, MemoryError | RuntimeError) and is_out_of_memory(error):
        print("tauleap: error: not enough memory: write a smaller --batch-size, or use less data", file=sys.stderr)
        return FAILED
    if isinstance(error, KeyboardInterrupt):
        number: signal.Signals = getattr(error, "signal", signal.SIGINT)
        print(f"tauleap: stopped by {number.name}{_how_to_resume(words)}", file=sys.stderr)
        return 128 + number
    return None


def _how_to_resume(words: Sequence[str]) -> str:
    if words[:1] == ["complete"]:
        return ": nothing was written"
    if words[:1] not in (["train"], ["sample"]):
        return ""
    from tauleap.cli.resume_command import resume_command

    return f"; to resume: {resume_command()}"
