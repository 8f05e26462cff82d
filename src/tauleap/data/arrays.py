"""Integer data in memory, the form in which training and evaluation take it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tauleap import _check


@dataclass(frozen=True)
class Dataset:
    """Rows ``x`` (n, *shape) of states ``0 .. num_states-1``, in any integer dtype: bytes are as good and smaller.

    ``condition`` (n, ...) goes to the network with its row, for a network that takes one. ``missing``, bool like x,
    marks values that nobody knows; x holds any state there. ``sizes``, int64 of shape (*shape), says how many states
    each site has, where they differ: the states of a site are ``0 .. size-1``.

    >>> data = Dataset(torch.tensor([[0, 1], [2, 2], [1, 0]], dtype=torch.uint8), num_states=3)
    >>> len(data), data.shape, data.rows(torch.tensor([2, 0]))
    (3, (2,), tensor([[1, 0],
            [0, 1]]))
    """

    x: Tensor
    num_states: int
    condition: Tensor | None = None
    missing: Tensor | None = None
    sizes: Tensor | None = None

    def __post_init__(self) -> None:
        _check.integer("num_states", self.num_states, least=2)
        if not isinstance(self.x, Tensor) or self.x.is_floating_point() or self.x.is_complex():
            given = self.x.dtype if isinstance(self.x, Tensor) else type(self.x).__name__
            raise TypeError(f"x must be a tensor of whole numbers (n, *shape), got {given}")
        if self.x.ndim < 2 or self.x.shape[0] == 0:
            raise ValueError(f"x must be one or more rows, (n, *shape) with n >= 1, got shape {tuple(self.x.shape)}")
        low, high = (int(value) for value in torch.aminmax(self.x))
        if low < 0 or high >= self.num_states:
            raise ValueError(f"x must hold states 0..{self.num_states - 1}, got values from {low} to {high}")
        if self.condition is not None and len(self.condition) != len(self.x):
            raise ValueError(f"condition must have one entry a row, {len(self.x)}, got {len(self.condition)}")
        self._check_missing()
        self._check_sizes()

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""
        return tuple(self.x.shape[1:])

    def rows(self, index: Tensor) -> Tensor:
        """The rows at the positions ``index`` (n,), as int64."""
        return self.x.index_select(0, index).long()

    def split(self, last: int, *, seed: int = 0) -> tuple[Dataset, Dataset]:
        """All but ``last`` rows, and ``last`` rows that were chosen at random: to train with, and to test with.

        >>> train, test = Dataset(torch.arange(10)[:, None], num_states=10).split(3)
        >>> len(train), len(test)
        (7, 3)
        """
        last = _check.integer("last", last, least=1)
        if last >= len(self):
            raise ValueError(f"last must leave rows to train with: there are {len(self)}, got {last}")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        return self._take(order[:-last]), self._take(order[-last:])

    def describe(self) -> dict[str, Any]:
        """What it is, as JSON can hold it: two datasets with one description have the same rows in the same order."""
        digest = hashlib.sha256(json.dumps([str(self.x.dtype), list(self.x.shape)]).encode())
        for name in ("x", "condition", "missing", "sizes"):
            tensor = getattr(self, name)
            if tensor is not None:
                digest.update(b"" if name in ("x", "condition") else name.encode())
                digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
        more = {} if self.missing is None else {"missing": int(self.missing.sum())}
        more |= {} if self.sizes is None else {"sizes": self.sizes.tolist()}
        return {
            "rows": len(self),
            "shape": list(self.shape),
            "num_states": self.num_states,
            **more,
            "sha256": digest.hexdigest(),
        }

    def _take(self, index: Tensor) -> Dataset:
        condition = None if self.condition is None else self.condition[index]
        missing = None if self.missing is None else self.missing[index]
        return Dataset(self.x[index], self.num_states, condition, missing, self.sizes)

    def _check_missing(self) -> None:
        if self.missing is None:
            return
        if not isinstance(self.missing, Tensor) or self.missing.dtype != torch.bool:
            given = self.missing.dtype if isinstance(self.missing, Tensor) else type(self.missing).__name__
            raise TypeError(f"missing must be a bool tensor, true where nobody knows the value, got {given}")
        if self.missing.shape != self.x.shape:
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
        beyond = (self.x >= self.sizes).nonzero()
        if len(beyond):
            row, *site = beyond[0].tolist()
            raise ValueError(
                f"row {row} has the state {int(self.x[row, *site])} at site {tuple(site)}, which has "
                f"{int(self.sizes[*site])} states: it must hold 0..{int(self.sizes[*site]) - 1}"
            )
