"""Other processes that work while this one does, and end with it however it ends."""

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
    """A few processes, each on one core; with none of them the work is done here, when it is asked for."""

    def __init__(self, number: int) -> None:
        # Not forked: torch's threads do not survive that.
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
        if kind is not None:  # nobody waits for what they are doing
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
    """Let processes that are started meanwhile ignore Ctrl-C, which a terminal sends to all: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():  # where Python does not let us
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
