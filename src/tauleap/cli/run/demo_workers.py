"""Worker processes that run beside this one, and end with it in every case."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class Workers:
    """Run functions in a few processes, each on one core; without processes, in this one.

    Args:
        number: The number of processes; 0 for none.
    """

    def __init__(self, number: int) -> None:
        # Spawned, not forked: torch's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._others = set(multiprocessing.active_children())
        self._pool = ProcessPoolExecutor(number, mp_context=context, initializer=_begin) if number else None

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Return the future result of a function, which runs as soon as a process is free.

        Args:
            work: The function, which must be picklable.
        """
        if self._pool is not None:
            with _ignore_sigint():
                return self._pool.submit(work)
        done: Future[T] = Future()
        done.set_result(work())
        return done

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:  # their results are no longer needed
            for process in set(multiprocessing.active_children()) - self._others:
                process.terminate()
        self._pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a worker: it uses one core, and ends when its parent does."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _ignore_sigint() -> Iterator[None]:
    """Make processes that start in the block ignore Ctrl-C, which a terminal sends to all: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():  # Python sets handlers only in the main thread
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
