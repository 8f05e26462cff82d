"""Progress: a bar with the remaining time on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reporting(show: bool, total: int, title: object) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of ``total`` steps, which reports progress on stderr."""
    if not show:
        yield lambda: None
    elif sys.stderr.isatty():
        with _bar(total, str(title)) as advance:
            yield advance
    else:
        yield _lines(total, str(title))


@contextmanager
def _bar(total: int, title: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)


def _lines(total: int, title: str) -> Callable[[], None]:
    """Return a function that prints a line after each tenth of the steps."""
    began, done = time.monotonic(), 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done == total or done * 10 // total > (done - 1) * 10 // total:
            gone = time.monotonic() - began
            left = gone / done * (total - done)
            print(f"{title}: {done}/{total} steps, {gone:.0f} s gone, {left:.0f} s left", file=sys.stderr, flush=True)

    return advance
