"""Integer data, the form in which training and evaluation take it."""

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
from tauleap.data.columns.raw import RawTable

_COUNTED, _COUNTED_BLOCKS = 2**25, 256
"""Values of a mapped file in which frequencies are counted, and blocks of neighbouring rows that they come from."""


class Rows(NamedTuple):
    """Some rows of a dataset: states int64 (n, *shape), and where there are any, missing values and conditions."""

    x: Tensor
    missing: Tensor | None
    condition: Tensor | None


@dataclass(frozen=True)
class Dataset:
    """Rows ``x`` (n, *shape) of states ``0 .. num_states-1``, in any integer dtype: bytes are as good and smaller.

    ``condition`` (n, ...) goes to the network with its row, for a network that takes one. ``missing``, bool like x,
    marks values that nobody knows; x holds any state there. ``sizes``, int64 of shape (*shape), says how many states
    each site has, where they differ: the states of a site are ``0 .. size-1``. ``source`` is the table that the rows
    were encoded from, whose numbers have more precision than their states. Rows that stay in a file, which
    :func:`tauleap.data.open_data` makes of a large ``.npy``, are read and checked when :meth:`rows` returns them.

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
        """Of one row."""
        return tuple(self.x.shape[1:])

    def rows(self, index: Tensor) -> Tensor:
        """Return rows as int64.

        Args:
            index: The positions of the rows, (n,).
        """
        if isinstance(self.x, MappedRows):
            return self.x.take(index)
        return self.x.index_select(0, index).long()

    def in_memory(self) -> Tensor:
        """Return ``x`` as a tensor; rows that stay in a file are read.

        Raises:
            ValueError: the file is too large for that.
        """
        if isinstance(self.x, Tensor):
            return self.x
        if self.x.numel() > limits.VALUES:
            raise ValueError(
                f"{self.x.name} has {self.x.numel():,} values, too many for the memory: write a part of it to a file "
                "of its own"
            )
        return self.rows(torch.arange(len(self)))

    def spread_rows(self) -> Tensor:
        """Return positions of rows to count in: all of them, or of a large file a part that is spread over it."""
        if isinstance(self.x, Tensor):
            return torch.arange(len(self))
        number = max(1, _COUNTED // math.prod(self.shape))
        if number >= len(self):
            return torch.arange(len(self))
        # Neighbours share pages of the file, so they are taken together.
        blocks = min(_COUNTED_BLOCKS, number)
        starts = torch.arange(blocks) * (len(self) - number // blocks) // max(1, blocks - 1)
        return (starts[:, None] + torch.arange(number // blocks)).flatten()

    def select(self, index: Tensor) -> Dataset:
        """Return some rows as a dataset, without reading those that stay in a file.

        Args:
            index: positions of rows, int64 (n,).
        """
        condition = None if self.condition is None else self.condition[index]
        missing = None if self.missing is None else self.missing[index]
        x = self.x.select(index) if isinstance(self.x, MappedRows) else self.x[index]
        source = None if self.source is None else self.source.select(index.cpu().numpy())
        return Dataset(x, self.num_states, condition, missing, self.sizes, source)

    def batch(self, index: Tensor, device: torch.device = _device.CPU) -> Rows:
        """Return states, missing values and conditions of some rows on a device, without waiting for the copy.

        Args:
            index: positions of rows, int64 (n,).
            device: where the tensors are put. Default: the CPU.
        """
        missing, condition = (
            None if a is None else _device.moved_to(a[index], device) for a in (self.missing, self.condition)
        )
        return Rows(_device.moved_to(self.rows(index), device), missing, condition)

    def known(self) -> Tensor:
        """Return a bool mask (n, *shape), true where the value is not missing."""
        return torch.ones(self.x.shape, dtype=torch.bool) if self.missing is None else ~self.missing

    def split(self, last: int, *, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Return all rows but ``last``, to train with, and ``last`` rows chosen at random, to test with.

        >>> train, test = Dataset(torch.arange(10)[:, None], num_states=10).split(3)
        >>> len(train), len(test)
        (7, 3)

        Args:
            last: How many rows to test with.
            seed: The seed of the choice.
        """
        last = _check.integer("last", last, least=1)
        if last >= len(self):
            raise ValueError(f"last must leave rows to train with: there are {len(self)}, got {last}")
        if isinstance(self.x, MappedRows) and self.condition is None:
            kept, chosen = self.x.split(last, seed)
            return replace(self, x=kept), replace(self, x=chosen)
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        return self.select(order[:-last]), self.select(order[-last:])

    def describe(self) -> dict[str, Any]:
        """Return a description as JSON can hold it; equal descriptions mean equal rows in the same order."""
        size = {"rows": len(self), "shape": list(self.shape), "num_states": self.num_states}
        if isinstance(self.x, MappedRows):
            return size | self.x.describe()
        digest = hashlib.sha256(json.dumps([str(self.x.dtype), list(self.x.shape)]).encode())
        for name in ("x", "condition", "missing", "sizes"):
            tensor = getattr(self, name)
            if tensor is not None:
                digest.update(b"" if name in ("x", "condition") else name.encode())
                digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
        more = {} if self.missing is None else {"missing": int(self.missing.sum())}
        more |= {} if self.sizes is None else {"sizes": self.sizes.tolist()}
        return size | more | {"sha256": digest.hexdigest()}

    def _check_mapped(self, x: MappedRows) -> None:
        if len(x.shape) < 2 or len(x) == 0:
            raise ValueError(f"x must be one or more rows, (n, *shape) with n >= 1, got shape {x.shape}")
        if x.num_states != self.num_states or self.missing is not None or self.sizes is not None:
            raise ValueError("rows that stay in a file have one number of states, and no values are missing")
        self._check_condition()

    def _check_condition(self) -> None:
        if self.condition is not None and len(self.condition) != len(self.x):
            raise ValueError(f"condition must have one entry per row, {len(self.x)}, got {len(self.condition)}")

    def _check_missing(self) -> None:
        if self.missing is None:
            return
        if not isinstance(self.missing, Tensor) or self.missing.dtype != torch.bool:
            given = self.missing.dtype if isinstance(self.missing, Tensor) else type(self.missing).__name__
            raise TypeError(f"missing must be a bool tensor, true where nobody knows the value, got {given}")
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
        beyond = (x >= self.sizes).nonzero()
        if len(beyond):
            row, *site = beyond[0].tolist()
            raise ValueError(
                f"row {row} has the state {int(x[row, *site])} at site {tuple(site)}, which has "
                f"{int(self.sizes[*site])} states: it must hold 0..{int(self.sizes[*site]) - 1}"
            )
