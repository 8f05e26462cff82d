"""Handle Ctrl-C, SIGTERM and SIGHUP: no traceback, and an exit code of 128 plus the number of the signal."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """End the command after a signal; unfinished files are removed before the exit.

    Args:
        number: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


@contextmanager
def raising_signals() -> Iterator[None]:
    """Raise :class:`Stopped` if a signal arrives within the block; Ctrl-C while Python exits is silent as well.

    A signal that is ignored, as SIGHUP is under ``nohup``, stays ignored.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere Python does not allow handlers
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    if signal.SIGINT in before:
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
    for number in before:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            # None stands for a handler that was not set from Python and cannot be set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def importing() -> Iterator[None]:
    """End the process at once if a signal arrives within the block, which only imports.

    An exception within an import of torch may be lost, or become another one.
    """
    swapped = []
    if threading.current_thread() is threading.main_thread():
        swapped = [number for number in _SIGNALS if signal.getsignal(number) is _raise]
    for number in swapped:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in swapped:
            signal.signal(number, _raise)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    if number == signal.SIGHUP:
        # A terminal that closes and its shell both send one: the second must not interrupt the cleaning up.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise Stopped(number)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)
