"""Rows of integer states, as training and evaluation take them."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap.data import limits
from tauleap.data.array.memory_map import MappedRows
from tauleap.data.sequences.rows import SequenceRows
from tauleap.data.table.columns.raw import RawTable

_SUBSAMPLE_VALUES, _SUBSAMPLE_BLOCKS = 2**25, 256
"""How many values of a mapped file are read to count frequencies, and from how many blocks of neighbouring rows."""


class Rows(NamedTuple):
    """Hold some rows of a dataset: int64 states (n, *shape), and the missing values and conditions if there are any."""

    x: Tensor
    missing: Tensor | None
    condition: Tensor | None


@dataclass(frozen=True)
class Dataset:
    """Hold rows of states, and the missing values and conditions that belong to them.

    Args:
        x: The rows, (n, *shape) with n >= 1, states ``0 .. num_states-1`` in any integer dtype; uint8 takes the least
            memory. Rows that stay in a file, as :func:`tauleap.data.open_data` returns them for a large ``.npy``, are
            read and checked when :meth:`rows` returns them.
        num_states: The number of states, S >= 2.
        condition: One condition per row, (n, ...), for a network that takes one. Default: None.
        missing: A bool mask like ``x``, true where the value is missing; ``x`` has an arbitrary state there. Default:
            None, no value is missing.
        sizes: The number of states of each site, int64 (*shape): a site has the states ``0 .. size-1``. Default: None,
            every site has ``num_states``.
        source: The table that the rows were encoded from; its numbers have more precision than their states. Default:
            None.
        sequences: For rows that end at their first end state: this state, and what the rows have beside their symbols.
            Default: None, all rows have equal lengths.

    Raises:
        TypeError: A tensor has the wrong dtype.
        ValueError: A state, a size or a shape is out of range.

    >>> data = Dataset(torch.tensor([[0, 1], [2, 2], [1, 0]], dtype=torch.uint8), num_states=3)
    >>> len(data), data.shape, data.rows(torch.tensor([2, 0]))
    (3, (2,), tensor([[1, 0],
            [0, 1]]))
    """

    x: Tensor | MappedRows
    num_states: int
    condition: Tensor | None = None
    missing: Tensor | None = None
    sizes: Tensor | None = None
    source: RawTable | None = None
    sequences: SequenceRows | None = None

    def __post_init__(self) -> None:
        _check.integer("num_states", self.num_states, least=2)
        if isinstance(self.x, MappedRows):
            self._check_mapped(self.x)
            return
        if not isinstance(self.x, Tensor) or self.x.is_floating_point() or self.x.is_complex():
            given = self.x.dtype if isinstance(self.x, Tensor) else type(self.x).__name__
            raise TypeError(f"x must be a tensor of whole numbers (n, *shape), got {given}")
        if self.x.ndim < 2 or self.x.shape[0] == 0:
            raise ValueError(f"x must be one or more rows, (n, *shape) with n >= 1, got shape {tuple(self.x.shape)}")
        low, high = (int(value) for value in torch.aminmax(self.x))
        if low < 0 or high >= self.num_states:
            raise ValueError(f"x must hold states 0..{self.num_states - 1}, got values from {low} to {high}")
        self._check_condition()
        self._check_missing()
        self._check_sizes()
        if self.source is not None and self.source.num_rows != len(self.x):
            raise ValueError(f"source must have one row per row of x, {len(self.x)}, got {self.source.num_rows}")

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(self.x.shape[1:])

    def rows(self, index: Tensor) -> Tensor:
        """Return rows as int64.

        Args:
            index: The positions of the rows, int64 (n,).

        Returns:
            The states, int64 (n, *shape).
        """
        if isinstance(self.x, MappedRows):
            return self.x.take(index)
        return self.x.index_select(0, index).long()

    def in_memory(self) -> Tensor:
        """Return ``x`` as a tensor; rows that stay in a file are read.

        Raises:
            ValueError: The file is too large to be held in memory.
        """
        if isinstance(self.x, Tensor):
            return self.x
        if self.x.numel() > limits.VALUES:
            raise ValueError(
                f"{self.x.name} has {self.x.numel():,} values, more than the {limits.VALUES:,} that are "
                "held in memory: write part of it to another file"
            )
        return self.rows(torch.arange(len(self)))

    def spread_rows(self) -> Tensor:
        """Return the rows in which to count frequencies: all, or blocks that are spread over a large file."""
        if isinstance(self.x, Tensor):
            return torch.arange(len(self))
        number = max(1, _SUBSAMPLE_VALUES // math.prod(self.shape))
        if number >= len(self):
            return torch.arange(len(self))
        # Neighbouring rows share pages of the file, so whole blocks are read.
        blocks = min(_SUBSAMPLE_BLOCKS, number)
        starts = torch.arange(blocks) * (len(self) - number // blocks) // max(1, blocks - 1)
        return (starts[:, None] + torch.arange(number // blocks)).flatten()

    def select(self, index: Tensor) -> Dataset:
        """Return some rows as a dataset, without reading those that stay in a file.

        Args:
            index: The positions of the rows, int64 (n,).
        """
        condition = None if self.condition is None else self.condition[index]
        missing = None if self.missing is None else self.missing[index]
        x = self.x.select(index) if isinstance(self.x, MappedRows) else self.x[index]
        source = None if self.source is None else self.source.select(index.cpu().numpy())
        sequences = None if self.sequences is None else self.sequences.select(index)
        return Dataset(x, self.num_states, condition, missing, self.sizes, source, sequences)

    def batch(self, index: Tensor, device: torch.device = _device.CPU) -> Rows:
        """Return states, missing values and conditions of some rows on a device, without waiting for the copy.

        Args:
            index: The positions of the rows, int64 (n,).
            device: The device of the returned tensors. Default: the CPU.
        """
        missing, condition = (
            None if a is None else _device.moved_to(a[index], device) for a in (self.missing, self.condition)
        )
        return Rows(_device.moved_to(self.rows(index), device), missing, condition)

    def known(self) -> Tensor:
        """Return a bool mask (n, *shape), true where the value is not missing."""
        return torch.ones(self.x.shape, dtype=torch.bool) if self.missing is None else ~self.missing

    def split(self, test_rows: int, *, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Split the rows at random into a training set and a test set.

        >>> train, test = Dataset(torch.arange(10)[:, None], num_states=10).split(3)
        >>> len(train), len(test)
        (7, 3)

        Args:
            test_rows: The number of rows in the test set, 1 to ``len(self) - 1``.
            seed: The seed of the random choice. Default: 0.

        Returns:
            The training set and the test set.

        Raises:
            ValueError: ``test_rows`` is out of range.
        """
        test_rows = _check.integer("test_rows", test_rows, least=1)
        if test_rows >= len(self):
            raise ValueError(
                f"test_rows must be less than the {len(self):,} rows, so that some are left, got {test_rows:,}"
            )
        if isinstance(self.x, MappedRows) and self.condition is None:
            train, test = self.x.split(test_rows, seed)
            return replace(self, x=train), replace(self, x=test)
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        return self.select(order[:-test_rows]), self.select(order[-test_rows:])

    def describe(self) -> dict[str, Any]:
        """Return a description that can be saved as JSON; it is equal for equal rows in the same order."""
        size = {"rows": len(self), "shape": list(self.shape), "num_states": self.num_states}
        if isinstance(self.x, MappedRows):
            return size | self.x.describe()
        digest = hashlib.sha256(json.dumps([str(self.x.dtype), list(self.x.shape)]).encode())
        for name in ("x", "condition", "missing", "sizes"):
            tensor = getattr(self, name)
            if tensor is not None:
                # Without the names of x and condition, data that has no other tensors keeps its earlier digest.
                digest.update(b"" if name in ("x", "condition") else name.encode())
                digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
        more = {} if self.missing is None else {"missing": int(self.missing.sum())}
        more |= {} if self.sizes is None else {"sizes": self.sizes.tolist()}
        more |= {} if self.sequences is None else {"end": self.sequences.end}
        return size | more | {"sha256": digest.hexdigest()}

    def _check_mapped(self, x: MappedRows) -> None:
        if len(x.shape) < 2 or len(x) == 0:
            raise ValueError(f"x must be one or more rows, (n, *shape) with n >= 1, got shape {x.shape}")
        if x.num_states != self.num_states or self.missing is not None or self.sizes is not None:
            raise ValueError(
                "sizes and missing need rows in memory, and these rows stay in their file: read the file with "
                "numpy.load, and pass its array"
            )
        self._check_condition()

    def _check_condition(self) -> None:
        if self.condition is not None and len(self.condition) != len(self.x):
            raise ValueError(f"condition must have one entry per row, {len(self.x)}, got {len(self.condition)}")

    def _check_missing(self) -> None:
        if self.missing is None:
            return
        if not isinstance(self.missing, Tensor) or self.missing.dtype != torch.bool:
            given = self.missing.dtype if isinstance(self.missing, Tensor) else type(self.missing).__name__
            raise TypeError(f"missing must be a bool tensor, true where a value is missing, got {given}")
        if self.missing.shape != tuple(self.x.shape):
            raise ValueError(
                f"missing must have the shape of x, {tuple(self.x.shape)}, got {tuple(self.missing.shape)}"
            )

    def _check_sizes(self) -> None:
        if self.sizes is None:
            return
        if not isinstance(self.sizes, Tensor) or self.sizes.dtype != torch.int64:
            given = self.sizes.dtype if isinstance(self.sizes, Tensor) else type(self.sizes).__name__
            raise TypeError(f"sizes must be an int64 tensor, the number of states of each site, got {given}")
        if self.sizes.shape != self.shape:
            raise ValueError(f"sizes must have the shape of a row, {self.shape}, got {tuple(self.sizes.shape)}")
        low, high = (int(value) for value in torch.aminmax(self.sizes))
        if low < 1 or high > self.num_states:
            raise ValueError(f"sizes must lie in 1..{self.num_states}, the number of states, got {low} to {high}")
        x = self.in_memory()
        invalid = (x >= self.sizes).nonzero()
        if len(invalid):
            row, *site = invalid[0].tolist()
            raise ValueError(
                f"row {row} has the state {int(x[row, *site])} at site {tuple(site)}, which has "
                f"{int(self.sizes[*site])} states: write one of 0..{int(self.sizes[*site]) - 1}"
            )
