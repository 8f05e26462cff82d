"""Transition kernels q_t|s of one site, as operators: rows, columns, products and draws.

Every kernel is stored in float64 and returns results in the requested dtype.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device, _draw
from tauleap._precision import full_precision
from tauleap._shapes import Law, PerSite, PerState, States


def along_batch(values: Tensor, ndim: int) -> Tensor:
    """Return ``values`` of shape () or (batch,) with axes of size 1 appended, to broadcast with ``ndim`` axes."""
    return values.reshape(values.shape + (1,) * (ndim - values.ndim)) if values.ndim else values


def at_own_state(law: Law, x: States) -> PerSite:
    """Return the entry of ``law``, (S,) or (*shape, S), at each site's own state, on the device of ``law``."""
    here = x.to(law.device)
    if law.ndim == 1:
        return law[here]
    return law.expand(*x.shape, -1).gather(-1, here[..., None]).squeeze(-1)


class Kernel(ABC):
    """Apply q(v | u), the probability that a site in state u is in state v some time later.

    >>> from tauleap.noise import Absorbing, Constant
    >>> kernel: Kernel = Absorbing(3, Constant(1.0)).kernel(0.5)  # the last state is the mask
    >>> kernel.rows(torch.tensor([[0]]), torch.float64)
    tensor([[[0.6065, 0.0000, 0.3935]]], dtype=torch.float64)
    """

    @abstractmethod
    def rows(self, x: States, dtype: torch.dtype) -> PerState:
        """Return the rows q(. | x).

        Args:
            x: The states.
            dtype: The dtype of the result.
        """

    @abstractmethod
    def columns(self, x: States, dtype: torch.dtype) -> PerState:
        """Return the columns q(x | .).

        Args:
            x: The states.
            dtype: The dtype of the result.
        """

    @abstractmethod
    def propagate(self, w: PerState) -> PerState:
        """Return w Q, sum_u w(u) q(v | u), in the dtype of ``w``.

        Args:
            w: Weights of every site and state.
        """

    @abstractmethod
    def sample(self, x: States, generator: torch.Generator | None) -> States:
        """Return a draw from q(. | x).

        Args:
            x: The states.
            generator: The source of randomness; None for that of torch.
        """

    def as_matrix(self, num_states: int, device: torch.device, samples: int | None = None) -> DenseKernel:
        """Return the kernel as a matrix, by reading all of its rows.

        Args:
            num_states: S.
            device: where the matrix is needed.
            samples: the batch size if every sample has a kernel of its own. Default: one kernel for all.
        """
        states = torch.arange(num_states, device=device).expand(1 if samples is None else samples, -1)
        matrix = self.rows(states, torch.float64)
        return DenseKernel(matrix[0] if samples is None else matrix)

    def divergences(self, prior: Law) -> Law | None:
        """Return KL(q(. | x0) || prior) for every state x0, (S,) or (*shape, S); None if that would be slow.

        Args:
            prior: The distribution to compare with, (S,) or (*shape, S).
        """
        return None


class DenseKernel(Kernel):
    """Hold a kernel as a matrix: one (S, S) for the whole batch, or (B, S, S), one per sample.

    An entry so small that float64 cannot represent its inverse counts as 0.

    Args:
        matrix: The probabilities, from row to column, in float64.

    >>> kernel = DenseKernel(torch.tensor([[0.75, 0.25], [0.0, 1.0]], dtype=torch.float64))
    >>> kernel.columns(torch.tensor([[1]]), torch.float64), kernel.has_zeros
    (tensor([[[0.2500, 1.0000]]], dtype=torch.float64), True)
    """

    def __init__(self, matrix: Float[Tensor, "*batch states states"]) -> None:
        tiny = torch.finfo(matrix.dtype).tiny
        # A search for the smallest entry is faster than a copy, and in most kernels no entry has to be set to 0.
        least = float(matrix.amin()) if _device.is_host(matrix.device) and matrix.numel() > 0 else 0.0
        self.matrix = matrix if least >= tiny else torch.nn.functional.hardshrink(matrix, tiny)
        self._positive = least if least >= tiny else None
        self._extremes: list[tuple[float, bool, float]] | None = None
        self._tables: dict[tuple[str, torch.dtype], Tensor] = {}

    @property
    def extremes(self) -> list[tuple[float, bool]]:
        """For each matrix its smallest positive entry, and whether it has zeros. The host waits once."""
        return [(smallest, zeros) for smallest, zeros, _ in self._read()]

    @property
    def largest(self) -> float:
        """The largest entry."""
        return max(largest for *_, largest in self._read())

    def _read(self) -> list[tuple[float, bool, float]]:
        if self._extremes is None:
            read_extremes([self])
        return self._extremes or []

    def _extremes_on_device(self) -> Tensor:
        """Return, for each matrix, its smallest positive entry, whether it has zeros, and its largest entry: (n, 3)."""
        rows = self.matrix.reshape(-1, self.matrix.shape[-1] ** 2)
        smallest = torch.where(rows > 0, rows, torch.inf).amin(-1)
        return torch.stack([smallest, (rows == 0).any(-1).to(rows.dtype), rows.amax(-1)], -1)

    @property
    def may_have_zeros(self) -> bool:
        """Whether an entry may be 0: ``has_zeros``, but True if the host would have to wait for the answer."""
        known = _device.is_host(self.matrix.device) or self._extremes is not None
        return self.has_zeros if known else True

    @cached_property
    def smallest(self) -> float:
        """The smallest entry that is not 0."""
        return self._positive or min(smallest for smallest, _ in self.extremes)

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some state cannot be reached from some other, or so rarely that float64 has no number for it."""
        return self._positive is None and any(zeros for _, zeros in self.extremes)

    def as_matrix(self, num_states: int, device: torch.device, samples: int | None = None) -> DenseKernel:
        return self

    def divergences(self, prior: Law) -> Law | None:
        return relative_entropy_terms(self.matrix, prior).sum(-1)

    def reachable(self, x: States) -> Tensor | None:
        """Return the states from which each x can be reached, bool (batch, *shape, S); None if from all.

        Args:
            x: The states.
        """
        return self.columns(x, torch.float64) > 0 if self.may_have_zeros else None

    def inverse_columns(self, x: States, dtype: torch.dtype) -> PerState:
        """Return 1 / q(x | .), 0 where x cannot be reached.

        Args:
            x: The states.
            dtype: The dtype of the result.
        """
        if self.prefer_gather(x):
            return self._inverse(self.columns(x, torch.float64)).to(dtype)
        return self.select(self.inverse_table(dtype), x)

    def inverse_table(self, dtype: torch.dtype) -> Tensor:
        """Return 1 / q(x | x0) at [x, x0], 0 where x cannot be reached.

        Args:
            dtype: The dtype of the result.
        """
        return self.table("inverse", dtype, lambda: self._inverse(self.matrix.mT))

    def columns_table(self, dtype: torch.dtype) -> Tensor:
        """Return q(x | u) at [x, u].

        Args:
            dtype: The dtype of the result.
        """
        return self.table("columns", dtype, lambda: self.matrix.mT)

    def _inverse(self, values: Tensor) -> Tensor:
        return torch.where(values > 0, 1 / values, 0.0) if self.may_have_zeros else 1 / values

    def prefer_gather(self, x: States) -> bool:
        """Return whether tables, one per sample, would be larger than the entries that the states x need.

        Args:
            x: The states.
        """
        return self.matrix.ndim == 3 and x.numel() < x.shape[0] * self.matrix.shape[-1]

    def rows(self, x: States, dtype: torch.dtype) -> PerState:
        return _read(self.matrix, x, dtype) if self.prefer_gather(x) else self.select(self._rows_table(dtype), x)

    def columns(self, x: States, dtype: torch.dtype) -> PerState:
        if self.prefer_gather(x):
            return _read(self.matrix.mT, x, dtype)
        return self.select(self.columns_table(dtype), x)

    @full_precision
    def propagate(self, w: PerState) -> PerState:
        matrix = self._rows_table(w.dtype).to(w.device)
        if matrix.ndim == 2:
            return w @ matrix
        flat = w.reshape(w.shape[0], -1, w.shape[-1])
        return (flat @ matrix).reshape(w.shape)

    def sample(self, x: States, generator: torch.Generator | None) -> States:
        if self.prefer_gather(x):
            weights = self.rows(x.to(self.matrix.device), torch.float64)
            return _draw.categorical(weights, generator).to(x.device)
        cdf = self.table("cumulative", torch.float64, lambda: _draw.cumulative(self.matrix))
        rows = _row_numbers(cdf, x.to(cdf.device), None)
        return _draw.from_cdf(cdf.flatten(0, -2), rows, generator).reshape(x.shape).to(x.device)

    def table(self, name: str, dtype: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        """Return a table (S, n) or (B, S, n) that follows from the matrix, laid out for reading rows; computed once.

        Args:
            name: The key of the table.
            dtype: The dtype of the result.
            make: Computes the table.
        """
        if (name, dtype) not in self._tables:
            with torch.inference_mode(False):  # the cached kernel must also be usable where gradients are computed
                self._tables[name, dtype] = make().to(dtype).contiguous()
        return self._tables[name, dtype]

    def select(self, table: Tensor, x: Tensor, samples: Tensor | None = None) -> Tensor:
        """Return row x of ``table`` for each entry of ``x``.

        Args:
            table: A table (S, n), or (B, S, n) with one per sample.
            x: The states; their first axis is the batch unless ``samples`` is given.
            samples: The sample of each entry of ``x``. Default: None.
        """
        rows = _row_numbers(table, x.to(table.device), samples)
        return table.flatten(0, -2).index_select(0, rows).reshape(*x.shape, table.shape[-1]).to(x.device)

    def _rows_table(self, dtype: torch.dtype) -> Tensor:
        return self.table("rows", dtype, lambda: self.matrix)


def relative_entropy_terms(q: Tensor, p: Tensor) -> Tensor:
    """Return q log(q / p), 0 where q is."""
    return torch.xlogy(q, q) - torch.xlogy(q, p)


def read_extremes(kernels: Sequence[DenseKernel], other: Tensor | None = None) -> float:
    """Read the extremes of all kernels, and one number more, while the host waits only once.

    Args:
        kernels: kernels whose ``extremes`` and ``largest`` will be known afterwards.
        other: a number on the device, (). Default: none.

    Returns:
        The value of ``other``; NaN without it.
    """
    unknown = [kernel for kernel in dict.fromkeys(kernels) if kernel._extremes is None]
    numbers = [kernel._extremes_on_device().reshape(-1) for kernel in unknown]
    device = next((number.device for number in (*numbers, other) if number is not None), _device.CPU)
    if other is not None:
        numbers.append(_device.exact(other).reshape(1))
    if not numbers:
        return math.nan
    found = torch.cat([_device.moved_to(number, device) for number in numbers]).tolist()
    for kernel in unknown:
        count = 3 * kernel.matrix.shape[:-2].numel()
        of_kernel, found = found[:count], found[count:]
        kernel._extremes = [
            (smallest, bool(zeros), largest)
            for smallest, zeros, largest in zip(of_kernel[::3], of_kernel[1::3], of_kernel[2::3], strict=True)
        ]
    return found[0] if found else math.nan


def _read(table: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return rows x of tables (B, S, n), one per sample, of any memory layout."""
    samples = along_batch(torch.arange(x.shape[0], device=table.device), x.ndim)
    return table[samples, x.to(table.device)].to(dtype).to(x.device)


def _row_numbers(table: Tensor, x: Tensor, samples: Tensor | None) -> Tensor:
    if table.ndim == 3:
        if samples is None:
            samples = along_batch(torch.arange(x.shape[0], device=x.device), x.ndim)
        x = x + samples.to(x.device) * table.shape[1]
    return x.reshape(-1)
