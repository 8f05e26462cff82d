"""Rows that stay in a file: mapped into memory, read when a batch needs them, and checked then.

A file may be larger than the memory. So its values are not converted and not checked as a whole: each batch is, and
an error names the row. The number of states comes from a scan of the whole file up to ``WHOLE_BYTES``, and of blocks
spread over it where it is larger; then a value beyond those of the blocks is found when its row is read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from tauleap._permutation import Permutation

MAPPED_BYTES = 2**26
"""Files up to this size are read into memory, where they can be checked and recoded as a whole."""
WHOLE_BYTES = 2**32
"""Files up to this size are scanned as a whole when they are opened: seconds, if the disk is fast."""
_BLOCK_BYTES, _BLOCKS = 2**22, 64
"""Of larger files 64 blocks of 4 MiB are scanned, in less than a second, and 64 of 4 KiB identify the contents."""
_IDENTIFYING_BYTES = 2**12


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Rows of whole numbers in a file, of which some may be left out.

    Args:
        array: (n, *shape), mapped from the file; of any integer type and byte order.
        name: of the file, for messages.
        low: the value of state 0.
        num_states: how many states there are, the values ``low .. low + num_states - 1``.
        index: int64, which rows of the file, in which order; None for all.
        left_out: int64, rising: the rows of the file that do not belong to these; None for none.
    """

    array: np.ndarray
    name: str
    low: int
    num_states: int
    index: Tensor | None = None
    left_out: Tensor | None = None

    def __len__(self) -> int:
        if self.index is not None:
            return len(self.index)
        return len(self.array) - (0 if self.left_out is None else len(self.left_out))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and shape of one row."""
        return (len(self), *self.array.shape[1:])

    def numel(self) -> int:
        """Return the number of values in all rows."""
        return math.prod(self.shape)

    def take(self, index: Tensor) -> Tensor:
        """Return the rows at the positions ``index`` as int64 states.

        Args:
            index: int64 (n,).

        Raises:
            ValueError: a value is not among the states.
        """
        places = self._places(index).numpy()
        values = self.array[places]
        high = self.low + self.num_states - 1
        if values.size and (int(values.min()) < self.low or int(values.max()) > high):
            at = tuple(int(i) for i in np.argwhere((values < self.low) | (values > high))[0])
            raise ValueError(
                f"{self.name} holds {values[at]} in row {places[at[0]]} at {at[1:]}, but the states are the values "
                f"{self.low}..{high}, as declared or found in the rows that were scanned: put it right, or write "
                "states=N (--states N) for states 0..N-1"
            )
        return torch.from_numpy(values.astype(np.int64)) - self.low

    def select(self, index: Tensor) -> MappedRows:
        """Return the rows at the positions ``index``, without reading them.

        Args:
            index: int64 (n,).
        """
        return replace(self, index=self._places(index), left_out=None)

    def split(self, last: int, seed: int) -> tuple[MappedRows, MappedRows]:
        """Return all but ``last`` rows, and ``last`` rows chosen at random; nothing is read, and no list of rows made.

        Args:
            last: how many.
            seed: of the choice.
        """
        chosen = Permutation(len(self), seed).take(torch.arange(last))
        if self.index is None and self.left_out is None:
            return replace(self, left_out=chosen.sort().values), self.select(chosen)
        kept = torch.ones(len(self), dtype=torch.bool)
        kept[chosen] = False
        return self.select(kept.nonzero().flatten()), self.select(chosen)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the rows: type, size, blocks spread over the file, and which rows are taken."""
        facts = [self.array.dtype.str, list(self.array.shape), self.low]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for block in _blocks(self.array, _IDENTIFYING_BYTES, _BLOCKS):
            digest.update(np.ascontiguousarray(block).tobytes())
        for which in (self.index, self.left_out):
            digest.update(b"all" if which is None else which.numpy().tobytes())
        return {"bytes": self.array.nbytes, "sha256_of_blocks": digest.hexdigest()}

    def _places(self, index: Tensor) -> Tensor:
        """Return positions in the file."""
        if self.index is not None:
            return self.index[index]
        if self.left_out is None:
            return index
        before = self.left_out - torch.arange(len(self.left_out))  # rows that stay before each that does not
        return index + torch.searchsorted(before, index, right=True)


def is_large_map(data: object) -> TypeGuard[np.memmap]:
    """Return whether data is an array of whole numbers in a file, mapped by rows, that is better left there.

    Args:
        data: anything.
    """
    return (
        isinstance(data, np.memmap)
        and data.nbytes > MAPPED_BYTES
        and data.dtype.kind in "iub"
        and data.flags.c_contiguous
    )


def scan(array: np.ndarray) -> tuple[int, int, bool]:
    """Return the lowest and the highest value of an array, and whether all of it was scanned.

    Args:
        array: (n, ...), perhaps mapped from a file.
    """
    is_whole = array.nbytes <= WHOLE_BYTES
    blocks = _blocks(array, _BLOCK_BYTES, None if is_whole else _BLOCKS)
    ranges = [(int(block.min()), int(block.max())) for block in blocks]
    return min(low for low, _ in ranges), max(high for _, high in ranges), is_whole


def _blocks(array: np.ndarray, size: int, number: int | None) -> Iterator[np.ndarray]:
    """Yield blocks of about ``size`` bytes: all, or ``number`` spread evenly from the first to the last."""
    rows = max(1, size // max(1, array[:1].nbytes))
    last = max(0, len(array) - rows)
    if number is None or last < number * rows:
        starts = range(0, len(array), rows)
    else:
        starts = [last * k // (number - 1) for k in range(number)]
    return (array[start : start + rows] for start in starts)
