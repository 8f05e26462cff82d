"""How a run tells where it is: a bar on a terminal, a line now and then elsewhere."""

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
    """Seconds of training, without what else the run does."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._clock() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Does not count the block."""
        before = self._clock()
        try:
            yield
        finally:
            self._start += self._clock() - before


class Pace:
    """Steps a second between two readings of a stopwatch."""

    def __init__(self, watch: Stopwatch, step: int) -> None:
        self._watch, self._step, self._seconds = watch, step, watch.seconds

    def at(self, step: int) -> float:
        """Since this was asked the last time."""
        seconds = self._watch.seconds
        pace = (step - self._step) / max(seconds - self._seconds, 1e-9)
        self._step, self._seconds = step, seconds
        return pace


class Display:
    """Shows the step, the loss, bits/dim, steps a second and the time left; ``quiet`` shows nothing.

    When nothing can be printed any more, as on a terminal that was closed, it becomes quiet: training continues, and
    the signal that came with the closing ends it with a checkpoint.
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
        """Prints a line, above the bar where there is one."""
        if not self._quiet:
            self._attempt(lambda: self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True))

    def validated(self, value: float, stderr: float) -> None:
        """Shows this bits/dim from now on."""
        self._bits = f"{value:.3f} ± {stderr:.3f} bits/dim  "

    def end(self, step: int) -> None:
        """Leaves the bar where the run has come to."""
        bar = self._bar
        if bar is not None:
            self._attempt(lambda: bar.update(self._task, completed=step, refresh=True))

    def due(self) -> bool:
        """Whether it is time to show something. Asked at every step, and cheap enough for that."""
        return not self._quiet and time.monotonic() >= self._due

    def show(self, step: int, loss: float) -> None:
        """Shows where the run is."""
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
