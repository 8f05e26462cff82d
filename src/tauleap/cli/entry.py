"""Run a command with its streams and signals; an error is one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from tauleap._version import __version__
from tauleap.cli.exit_codes import report
from tauleap.cli.output import open_standard_descriptors, steady_output
from tauleap.cli.signals import importing, raising_signals


def run(arguments: Sequence[str] | None) -> int:
    """Run a command; see :func:`tauleap.cli.main`.

    Args:
        arguments: The words after ``tauleap``; None for those of the process.
    """
    with ExitStack() as stack:
        if arguments is None:
            stack.enter_context(raising_signals())
            open_standard_descriptors()
        output = stack.enter_context(steady_output())
        words = list(sys.argv[1:] if arguments is None else arguments)
        try:
            with importing():
                from tauleap.cli.parsing import is_version_request, parse

                command = None if is_version_request(words) else parse(words)
            if command is None:
                print(f"tauleap {__version__}")
            else:
                command.run()
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            raise SystemExit(output.exit_code(code)) from leaving
        except (Exception, KeyboardInterrupt) as error:
            code = report(error, words)
            if code is None:
                raise
        return output.exit_code(code)
