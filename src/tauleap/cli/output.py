"""Standard streams on which printing never fails, whatever the encoding, and also if a pipe or terminal was closed.

The result of a command is its files. So work continues if its text can no longer be printed, and the exit code reports
that output was lost.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar, cast, runtime_checkable

from tauleap._files.full_disk import REMEDY, is_full_disk
from tauleap._files.printable import printable
from tauleap.cli.exit_codes import BROKEN_PIPE, FAILED

T = TypeVar("T")
_ASCII = str.maketrans(
    {"±": "+-", "×": "x", "…": "...", "•": "*", "─": "-", "━": "-", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+"}
)
"""Replacements for the characters that tauleap, rich and tyro print."""


@runtime_checkable
class TextStream(Protocol):
    """Declare the methods of a text stream that are used, since a notebook or a test may replace the streams."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def fileno(self) -> int: ...


class SteadyStream:
    """Write text with replacements for characters that cannot be encoded, and discard text after a failed write.

    Args:
        stream: The stream to write to.
    """

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write ``text``, or discard it after an error.

        Args:
            text: The text.
        """
        self._attempt(lambda: self._stream.write(encodable(text, getattr(self._stream, "encoding", None))))
        return len(text)

    def flush(self) -> None:
        """Flush the stream, unless it has failed."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], object]) -> None:
        if self.error is not None:
            return
        try:
            action()
        except OSError as error:
            self.error = error
            self._discard()

    def _discard(self) -> None:
        """Point the descriptor to the null device: Python flushes its buffer once more at exit, and would complain."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def encodable(text: str, encoding: str | None) -> str:
    r"""Return ``text`` with the characters that ``encoding`` lacks replaced.

    >>> encodable("2.5 ± 0.1 for café", "ascii")
    '2.5 +- 0.1 for caf\\xe9'

    Args:
        text: The text.
        encoding: The name of the encoding; None if it is unknown, and nothing is replaced.
    """
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text


class Output:
    """Hold the two streams of a command.

    Args:
        out: Standard output.
        err: Standard error.
    """

    def __init__(self, out: SteadyStream, err: SteadyStream) -> None:
        self.out, self.err = out, err

    def exit_code(self, code: int) -> int:
        """Return ``code``; if it is 0 but the standard output could not be written, the code of that failure.

        Args:
            code: The exit code of the command.
        """
        self.out.flush()
        self.err.flush()
        failure = self.out.error
        if code != 0 or failure is None:
            return code
        if failure.errno == errno.EPIPE:
            return BROKEN_PIPE
        remedy = REMEDY if is_full_disk(failure) else "write it to another file"
        self.err.write(f"tauleap: error: cannot write to the standard output: {failure.strerror}: {remedy}\n")
        self.err.flush()
        return FAILED


@contextmanager
def steady_output() -> Iterator[Output]:
    """Replace ``sys.stdout`` and ``sys.stderr`` by steady streams for a block."""
    before = sys.stdout, sys.stderr
    # A stream is None where its descriptor was closed when Python started.
    out, err = (SteadyStream(io.StringIO() if stream is None else stream) for stream in before)
    output = Output(out, err)
    sys.stdout, sys.stderr = cast(TextIO, output.out), cast(TextIO, output.err)
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = before


def print_result(result: dict[str, Any] | list[str]) -> None:
    """Print the result of a command.

    Args:
        result: A JSON object, for ``--json``, or lines of text.
    """
    print(json.dumps(result, allow_nan=False) if isinstance(result, dict) else printable("\n".join(result), lines=True))


def with_progress_bar(items: Sequence[T], title: str, *, show: bool) -> Iterable[T]:
    """Return items to iterate over, with a progress bar if there are several and the standard error is a terminal.

    Args:
        items: The items.
        title: What is done with each.
        show: Whether a bar may be shown.
    """
    if not show or len(items) < 2 or not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, title, console=Console(stderr=True), transient=True)


def files_line(files: list[Path], folder: Path) -> str:
    """Return the name of a file, or the number of files and their folder.

    Args:
        files: The files.
        folder: The folder that they are in.
    """
    return str(files[0]) if len(files) == 1 else f"{len(files)} files in {folder}"


def open_standard_descriptors() -> None:
    """Open the null device on those of the descriptors 0, 1 and 2 that are closed.

    Otherwise the next file that is opened gets such a number, and everything printed by other code goes into it.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, True)
