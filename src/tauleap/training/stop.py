"""Ctrl-C and SIGTERM, heard between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stop:
    """While it is entered, the first signal is noted in ``signal``; a second one does what it always does."""

    _HEARD = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python does not let us listen
            self._before = {heard: signal.signal(heard, self._hear) for heard in self._HEARD}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        self._leave()

    def _leave(self) -> None:
        while self._before:
            heard, before = self._before.popitem()
            # None stands for a handler that was not set from Python and cannot be set again.
            signal.signal(heard, signal.SIG_DFL if before is None else before)
