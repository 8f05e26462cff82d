"""Show the progress of a run: a bar in a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from tauleap._files.printable import printable

_BAR_SECONDS, _LINE_SECONDS = 0.5, 10.0


class Stopwatch:
    """Measure the time of training steps, without validation, samples and checkpoints.

    Args:
        clock: Returns seconds. Default: ``time.monotonic``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()

    @property
    def seconds(self) -> float:
        """Seconds since the start, without pauses."""
        return self._clock() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of the block."""
        before = self._clock()
        try:
            yield
        finally:
            self._start += self._clock() - before


class Pace:
    """Measure steps per second between two readings of a stopwatch.

    Args:
        watch: The stopwatch.
        step: The current step.
    """

    def __init__(self, watch: Stopwatch, step: int) -> None:
        self._watch, self._step, self._seconds = watch, step, watch.seconds

    def at(self, step: int) -> float:
        """Return the steps per second since the last call.

        Args:
            step: The current step.
        """
        seconds = self._watch.seconds
        pace = (step - self._step) / max(seconds - self._seconds, 1e-9)
        self._step, self._seconds = step, seconds
        return pace


class Display:
    """Show the step, the loss, bits/dim, steps per second and the remaining time.

    If printing fails, for instance because the terminal was closed, nothing more is printed and training continues.

    Args:
        console: Where to print.
        watch: The stopwatch of the run.
        step: The current step.
        steps: The last step.
        quiet: Whether to print nothing. Default: false.
    """

    def __init__(self, console: Console, watch: Stopwatch, step: int, steps: int, *, quiet: bool = False) -> None:
        self._console, self._steps, self._quiet = console, steps, quiet
        self._pace = Pace(watch, step)
        self._bits = ""
        self._due = time.monotonic() + 1.0
        self._bar: Progress | None = None
        if console.is_terminal and not quiet:
            texts = (TextColumn("training"), BarColumn(None), TaskProgressColumn(), TextColumn("{task.fields[news]}"))
            self._bar = Progress(*texts, console=console, auto_refresh=False)
            self._task = self._bar.add_task("training", total=steps, completed=step, news="")

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._attempt(self._bar.start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._attempt(self._bar.stop)

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one.

        Args:
            text: The line.
        """
        if not self._quiet:
            self._attempt(lambda: self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True))

    def validated(self, value: float, stderr: float) -> None:
        """Set the bits/dim to show.

        Args:
            value: Bits/dim of the held-out rows.
            stderr: Its standard error.
        """
        self._bits = f"{value:.3f} ± {stderr:.3f} bits/dim  "

    def end(self, step: int) -> None:
        """Update the bar for the last time.

        Args:
            step: The last step.
        """
        bar = self._bar
        if bar is not None:
            self._attempt(lambda: bar.update(self._task, completed=step, refresh=True))

    def due(self) -> bool:
        """Return whether it is time to show progress; cheap enough for every step."""
        return not self._quiet and time.monotonic() >= self._due

    def show(self, step: int, loss: float) -> None:
        """Show the progress.

        Args:
            step: The current step.
            loss: Its loss.
        """
        self._due = time.monotonic() + (_LINE_SECONDS if self._bar is None else _BAR_SECONDS)
        pace = self._pace.at(step)
        left = timedelta(seconds=round((self._steps - step) / pace)) if pace > 0 else "?"
        news = f"loss {loss:.4g}  {self._bits}{pace:.1f} steps/s  {left} left"
        bar = self._bar
        if bar is None:
            self.say(f"step {step}/{self._steps}  {news}")
        else:
            self._attempt(lambda: bar.update(self._task, completed=step, news=news, refresh=True))

    def _attempt(self, action: Callable[[], object]) -> None:
        """Call ``action``, which prints."""
        try:
            action()
        except OSError:
            self._quiet = True
