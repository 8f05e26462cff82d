"""Ctrl-C, SIGTERM and SIGHUP, handled between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_UNHANDLED = object()


class Stop:
    """Record the first signal inside the block in ``signal``; a second signal has its usual effect.

    SIGHUP, sent when a terminal closes, stays ignored if it was, as under ``nohup``. After the first signal
    it is ignored until the end of the block: a terminal and its shell both send one, and some send it after SIGTERM.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # Python sets handlers in the main thread only
            ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            handled = [number for number in self._SIGNALS if not (ignored and number == signal.SIGHUP)]
            self._before = {number: signal.signal(number, self._on_signal) for number in handled}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        hangup = self._before.pop(signal.SIGHUP, _UNHANDLED)
        self._leave()
        if hangup is not _UNHANDLED:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self._before[signal.SIGHUP] = hangup

    def _leave(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            # None stands for a handler that was not set from Python and cannot be set again.
            signal.signal(number, signal.SIG_DFL if before is None else before)
