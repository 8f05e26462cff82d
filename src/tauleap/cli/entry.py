"""Run a command with its streams and signals; an error is one line and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from tauleap._files.full_disk import FULL_DISK
from tauleap._files.printable import printable
from tauleap._files.safe_read import is_out_of_memory
from tauleap._version import __version__
from tauleap.cli.output import Output, open_standard_descriptors, steady_output
from tauleap.cli.signals import importing, raising_signals

_FAILURES = (*FULL_DISK, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the machine, for which the exit code is 1; invalid arguments or input have 2."""


def run(arguments: Sequence[str] | None) -> int:
    """Run a command; see :func:`tauleap.cli.main`.

    Args:
        arguments: The words after ``tauleap``; None for those of the process.
    """
    if arguments is not None:
        with steady_output() as output:
            return _finish(list(arguments), output)
    with raising_signals():
        open_standard_descriptors()
        with steady_output() as output:
            return _finish(sys.argv[1:], output)


def _finish(words: list[str], output: Output) -> int:
    try:
        code = _run(words)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        raise SystemExit(output.exit_code(code)) from leaving
    return output.exit_code(code)


def _run(words: list[str]) -> int:
    try:
        with importing():
            from tauleap.cli.parsing import is_version_request, parse

            if is_version_request(words):
                print(f"tauleap {__version__}")
                return 0
            command = parse(words)
        command.run()
    except (ValueError, TypeError, OSError) as error:
        if os.environ.get("TAULEAP_TRACEBACK") == "1":
            raise
        # An error about a table has one line per problem.
        parts = str(error).splitlines() if hasattr(error, "problems") else [str(error)]
        for part in parts or [""]:
            message = printable(" ".join(part.split())) or type(error).__name__
            print(f"tauleap: error: {message}", file=sys.stderr)
        return 1 if isinstance(error, OSError) and error.errno in _FAILURES else 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print("tauleap: error: not enough memory: write a smaller --batch-size, or use less data", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        number: signal.Signals = getattr(stopped, "signal", signal.SIGINT)
        print(f"tauleap: stopped by {number.name}{_how_to_resume(words)}", file=sys.stderr)
        return 128 + number
    return 0


def _how_to_resume(words: list[str]) -> str:
    if words[:1] == ["complete"]:
        return ": nothing was written"
    if words[:1] not in (["train"], ["sample"]):
        return ""
    from tauleap.cli.resume_command import resume_command

    return f"; to resume: {resume_command()}"
