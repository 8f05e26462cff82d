"""Several processes that fill one folder of samples: which parts each one makes, and how they keep out of the way.

All work under a shared lock of the folder. Whoever comes first has it alone for the moment in which the request is
written, and whoever finds all parts there has it alone while the files are written: that waits until nobody works any
more. Each shard has a lock of its own besides, so that none is made twice at a time.
"""

from __future__ import annotations

import fcntl
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tauleap._files import owned

_LOCK = ".lock"


@dataclass(frozen=True)
class Shard:
    """Number ``index`` of ``count``, counted from 1: it makes part ``index`` of the list, and every ``count``-th on.

    >>> Shard.read("2/3").of(range(0, 80, 10))
    [10, 40, 70]
    """

    index: int
    count: int

    @staticmethod
    def read(text: str | None) -> Shard:
        """As it is written after ``--shard``; nothing is the whole."""
        if text is None:
            return Shard(1, 1)
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"--shard must be I/N with I from 1 to N, such as 1/4, 2/4, 3/4 and 4/4, got {text!r}")
        return Shard(int(match[1]), int(match[2]))

    def of(self, places: range) -> list[int]:
        """Those of the parts that are this shard's."""
        return list(places[self.index - 1 :: self.count])

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@contextmanager
def together(folder: Path, begin: Callable[[], None], begun: Callable[[], bool]) -> Iterator[None]:
    """Holds ``folder`` together with others; the first one calls ``begin``, alone. It waits while somebody is alone."""
    with owned.open_plain(folder / _LOCK, "a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                begin()
            fcntl.flock(file, fcntl.LOCK_SH)
            if begun():
                break
            # The one that was to begin has died in between: somebody else has to.
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.05)
        yield


@contextmanager
def alone(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds ``folder`` for this process only, as soon as no other has it; without ``wait``, yields False if one has."""
    with owned.open_plain(folder / _LOCK, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
