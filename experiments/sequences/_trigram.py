"""A model of characters by counts of three consecutive ones, with marks for beginning and end of a row."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

_BEGIN, _END = "\x02", "\x03"


class Trigram:
    """p(character | the two before it) by counts plus a constant.

    Args:
        texts: The training rows.
        added: The constant that is added to every count.
    """

    def __init__(self, texts: Sequence[str], added: float = 0.01) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            marked = 2 * _BEGIN + text + _END
            for at in range(2, len(marked)):
                counts[marked[at - 2 : at]][marked[at]] += 1
        self.symbols = sorted({*"".join(texts), _END})
        self.added = added
        self.counts = counts

    def bits(self, text: str) -> float:
        """Return -log2 p of a row."""
        marked = 2 * _BEGIN + text + _END
        total = 0.0
        for at in range(2, len(marked)):
            found = self.counts.get(marked[at - 2 : at], Counter())
            whole = found.total() + self.added * len(self.symbols)
            total -= math.log2((found[marked[at]] + self.added) / whole)
        return total

    def sample(self, n: int, seed: int, longest: int = 1000) -> list[str]:
        """Return rows, cut at ``longest`` characters."""
        rng = np.random.default_rng(seed)
        laws: dict[str, np.ndarray] = {}
        rows = []
        for _ in range(n):
            text = 2 * _BEGIN
            while len(text) < longest + 2:
                context = text[-2:]
                if context not in laws:
                    found = self.counts.get(context, Counter())
                    law = np.array([found[symbol] + self.added for symbol in self.symbols])
                    laws[context] = np.cumsum(law / law.sum())
                at = min(int(np.searchsorted(laws[context], rng.random(), side="right")), len(self.symbols) - 1)
                if self.symbols[at] == _END:
                    break
                text += self.symbols[at]
            rows.append(text[2:])
        return rows
