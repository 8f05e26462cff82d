"""Properties of rows of different lengths that their states do not show: lengths, labels and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class SequenceRows:
    """Describe the rows of a dataset that end at their first end state; every later site has the end state too.

    Args:
        end: The end state.
        characters: The number of characters of each row and one for its end, int64 (n,); None if its symbols were
            given as a list.
        labels: The number of class labels; the condition of a row without a label is this number. None for no labels.
        extras: What the file has beside the sequence of each row, such as its name; None for nothing.
    """

    end: int
    characters: Tensor | None = None
    labels: int | None = None
    extras: Sequence[tuple[str, ...]] | None = None

    def select(self, index: Tensor) -> SequenceRows:
        """Return some rows.

        Args:
            index: The positions of the rows, int64 (n,).
        """
        characters = None if self.characters is None else self.characters[index]
        extras = None if self.extras is None else [self.extras[place] for place in np.asarray(index.cpu()).tolist()]
        return SequenceRows(self.end, characters, self.labels, extras)

    def symbols(self, x: Tensor) -> Tensor:
        """Return the number of symbols of each row with its end, int64 (n,).

        Args:
            x: The states, (n, sites).
        """
        is_end = x == self.end
        is_end[:, -1] = True
        return is_end.int().argmax(1) + 1
