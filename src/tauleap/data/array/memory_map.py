"""Rows that stay in a file: memory-mapped, and read and checked batch by batch.

A file may be larger than the memory. Therefore each batch is converted and checked by itself, and an error has the
number of the row. The number of states comes from a scan of the whole file up to ``WHOLE_BYTES``. Of a larger file only
blocks are scanned, and a value that is out of range elsewhere is an error when its row is read.
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
"""Files up to this size are scanned as a whole when they are opened, which takes seconds on a fast disk."""
_BLOCK_BYTES, _BLOCKS = 2**22, 64
"""Of a larger file 64 blocks of 4 MiB are scanned, in less than a second; 64 of 4 KiB identify the contents."""
_IDENTIFYING_BYTES = 2**12


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Read rows of whole numbers from a file, all of them or some.

    Args:
        array: The memory map of the file, (n, *shape), with any integer dtype and byte order.
        name: The name of the file in messages.
        low: The value of state 0.
        num_states: The number of states, whose values are ``low .. low + num_states - 1``.
        index: The rows to use and their order, int64. Default: None, all rows.
        excluded: The rows not to use, int64 in increasing order. Default: None, no row.
    """

    array: np.ndarray
    name: str
    low: int
    num_states: int
    index: Tensor | None = None
    excluded: Tensor | None = None

    def __len__(self) -> int:
        if self.index is not None:
            return len(self.index)
        return len(self.array) - (0 if self.excluded is None else len(self.excluded))

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
            index: The positions, int64 (n,).

        Raises:
            ValueError: A value is not among the states.
        """
        places = self._places(index).numpy()
        values = self.array[places]
        high = self.low + self.num_states - 1
        if values.size and (int(values.min()) < self.low or int(values.max()) > high):
            at = tuple(int(i) for i in np.argwhere((values < self.low) | (values > high))[0])
            raise ValueError(
                f"{self.name} has the value {values[at]} in row {places[at[0]]} at {at[1:]}, but the states are the "
                "values "
                f"{self.low}..{high}, as declared or found in the scanned rows: correct the value, or write states=N "
                "(--states N) for states 0..N-1"
            )
        return torch.from_numpy(values.astype(np.int64)) - self.low

    def select(self, index: Tensor) -> MappedRows:
        """Return the rows at the positions ``index``, without reading them.

        Args:
            index: The positions, int64 (n,).
        """
        return replace(self, index=self._places(index), excluded=None)

    def split(self, test_rows: int, seed: int) -> tuple[MappedRows, MappedRows]:
        """Split the rows at random into a training set and a test set, without reading the file.

        Args:
            test_rows: The number of rows in the test set.
            seed: The seed of the random choice.
        """
        test = Permutation(len(self), seed).take(torch.arange(test_rows))
        if self.index is None and self.excluded is None:
            # A list of all training rows could be larger than the memory.
            return replace(self, excluded=test.sort().values), self.select(test)
        is_train = torch.ones(len(self), dtype=torch.bool)
        is_train[test] = False
        return self.select(is_train.nonzero().flatten()), self.select(test)

    def describe(self) -> dict[str, Any]:
        """Return the size in bytes, and a checksum of dtype, shape, blocks of the file and the rows in use."""
        facts = [self.array.dtype.str, list(self.array.shape), self.low]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for block in _blocks(self.array, _IDENTIFYING_BYTES, _BLOCKS):
            digest.update(np.ascontiguousarray(block).tobytes())
        for rows in (self.index, self.excluded):
            digest.update(b"all" if rows is None else rows.numpy().tobytes())
        return {"bytes": self.array.nbytes, "sha256_of_blocks": digest.hexdigest()}

    def _places(self, index: Tensor) -> Tensor:
        """Return positions in the file."""
        if self.index is not None:
            return self.index[index]
        if self.excluded is None:
            return index
        before = self.excluded - torch.arange(len(self.excluded))  # the number of used rows before each excluded one
        return index + torch.searchsorted(before, index, right=True)


def is_large_map(data: object) -> TypeGuard[np.memmap]:
    """Return whether data is a memory map of whole numbers, in rows, that is too large to read as a whole.

    Args:
        data: Any object.
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
        array: The array, (n, ...); it may be a memory map.
    """
    is_whole = array.nbytes <= WHOLE_BYTES
    blocks = _blocks(array, _BLOCK_BYTES, None if is_whole else _BLOCKS)
    ranges = [(int(block.min()), int(block.max())) for block in blocks]
    return min(low for low, _ in ranges), max(high for _, high in ranges), is_whole


def _blocks(array: np.ndarray, size: int, number: int | None) -> Iterator[np.ndarray]:
    """Yield blocks of about ``size`` bytes: all, or ``number`` at equal distances."""
    rows = max(1, size // max(1, array[:1].nbytes))
    last = max(0, len(array) - rows)
    if number is None or last < number * rows:
        starts = range(0, len(array), rows)
    else:
        starts = [last * k // (number - 1) for k in range(number)]
    return (array[start : start + rows] for start in starts)
