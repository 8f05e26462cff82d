"""``--shard``: which blocks of the samples one of several processes makes; torch is not needed."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """One of several processes: it makes block ``index`` of the list, and every ``count``-th after it.

    Args:
        index: The number of the process, from 1.
        count: How many processes there are.

    >>> Shard.read("2/3").of(range(0, 80, 10))
    [10, 40, 70]
    """

    index: int
    count: int

    @staticmethod
    def read(text: str | None) -> Shard:
        """Return a shard as it is written after ``--shard``; None is the only one.

        Args:
            text: Such as "2/4".
        """
        if text is None:
            return Shard(1, 1)
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"--shard must be I/N with I from 1 to N, such as 1/4, 2/4, 3/4 and 4/4, got {text!r}")
        return Shard(int(match[1]), int(match[2]))

    def of(self, places: range) -> list[int]:
        """Return those blocks that are of this shard.

        Args:
            places: The first rows of all blocks.
        """
        return list(places[self.index - 1 :: self.count])

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
