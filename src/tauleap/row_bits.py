"""Bits per row of data under a model: of its states, and of its original values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tauleap.data import Dataset
from tauleap.data.array.memory_map import MappedRows
from tauleap.data.format import Format
from tauleap.data.observed_cells import known_cells
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.objective.arguments import has_rows
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess

_ROWS_OF_FILES = 2**12
"""Rows that are read at a time from a file that may be larger than the memory."""


def row_bits(
    reverse: ReverseProcess,
    form: Format | None,
    data: Dataset,
    observed: Any = None,
    *,
    samples: int,
    batch_size: int,
    generator: torch.Generator,
    condition: Tensor | None = None,
    progress: bool = False,
) -> Estimate[Tensor]:
    """Return bits/dim of each row. Rows that stay in their file are read in parts.

    Args:
        reverse: The reverse process of the model.
        form: The format of the rows, None for plain states.
        data: The rows.
        observed: The values to condition on, as :meth:`tauleap.Model.bits_per_dim` takes them. Default: none.
        samples: Random times per row.
        batch_size: Draws per batch.
        generator: The source of times and noise.
        condition: Input of a conditional network. Default: none.
        progress: Whether to show a progress bar. Default: false.

    Returns:
        Bits/dim per row and their standard errors.
    """
    mapped = isinstance(data.x, MappedRows) and len(data) > _ROWS_OF_FILES
    known = None
    if observed is not None:
        known = known_cells(data.select(torch.arange(1)) if mapped else data, observed, form)
    parts = []
    for index in torch.arange(len(data)).split(_ROWS_OF_FILES if mapped else len(data)):
        rows = data.rows(index)  # each batch of them is moved to the device
        parts.append(
            bits_per_dim(
                reverse,
                rows,
                samples=samples,
                batch_size=batch_size,
                per_datapoint=True,
                observed=None if known is None else Observed(known.expand(rows.shape), rows),
                missing=data.missing,
                condition=condition[index] if condition is not None and has_rows(condition, len(data)) else condition,
                generator=generator,
                progress=progress,
            )
        )
    return Estimate(torch.cat([part.value for part in parts]), torch.cat([part.stderr for part in parts]), samples)


def original_bits(form: Format | None, data: Dataset, observed: Any, bits: Tensor) -> Tensor:
    """Return the bits of the original values of each row: those of its states, plus those of values given states.

    Args:
        form: The format of the rows, None for plain states, which are the values.
        data: The rows.
        observed: The values to condition on, which have no bits; None for none.
        bits: Bits/dim of each row, as :func:`row_bits` returns them.

    Returns:
        Bits per row.
    """
    scored = data.known()
    if observed is not None:
        scored = scored & ~known_cells(data, observed, form)
    total = bits * scored.reshape(len(data), -1).sum(1)
    density = None if form is None else form.log_density(data)
    if density is None:
        return total
    return total - (density * scored).reshape(len(data), -1).sum(1) / math.log(2)


class SequenceBits(NamedTuple):
    """Bits of rows of symbols, of which each has an end; the end counts as a symbol, and sites behind it do not."""

    per_symbol: Estimate[float]
    """Bits of all rows over their number of symbols with ends."""
    per_row: Estimate[float]
    """The mean over rows."""
    per_character: Estimate[float] | None
    """Bits of all rows over their number of characters, with one for the end of each row: comparable between
    tokenisers. None if the rows are lists of tokens."""

    def as_json(self) -> dict[str, Estimate[float]]:
        """Return the estimates by their names in reports."""
        named = {f"bits_{name}": getattr(self, name) for name in self._fields}
        return {name: estimate for name, estimate in named.items() if estimate is not None}

    def __str__(self) -> str:
        lines = [f"{self.per_symbol} bits per symbol, with the end of each row and without the sites behind it"]
        lines += [f"{self.per_row} bits per row"]
        if self.per_character is not None:
            lines += [f"{self.per_character} bits per character, with one for the end of each row"]
        return "\n".join(lines)


def sequence_bits(data: Dataset, observed: Any, bits: Tensor, form: Format | None = None) -> SequenceBits:
    """Return the bits of rows of symbols per symbol, row and character.

    Args:
        data: The rows.
        observed: The values to condition on, which have no bits; None for none.
        bits: Bits/dim of each row, as :func:`row_bits` returns them.
        form: The format of the rows. Default: None.

    Raises:
        ValueError: The rows have equal lengths and no end state.
    """
    if data.sequences is None:
        raise ValueError("bits per symbol need rows of symbols with an end state, got rows of equal lengths")
    x = data.in_memory()
    inside = torch.arange(x.shape[1]) < data.sequences.symbols(x)[:, None]
    scored = data.known() if observed is None else data.known() & ~known_cells(data, observed, form)
    total = bits.double() * scored.sum(1)
    characters = data.sequences.characters if observed is None else None
    return SequenceBits(
        _ratio(total, (inside & scored).sum(1)),
        Estimate.of_mean(total),
        None if characters is None else _ratio(total, characters),
    )


def _ratio(total: Tensor, number: Tensor) -> Estimate[float]:
    """Return the sum of one over the sum of another, with the standard error of the linearised ratio."""
    number = number.double()
    value = float(total.sum() / number.sum().clamp(min=1))
    rest = Estimate.of_mean((total - value * number) / number.mean().clamp(min=1e-9))
    return Estimate(value, rest.stderr, len(total))


def mean_of_rows(rows: Estimate[Tensor]) -> Estimate[float]:
    """Return the mean over rows with its standard error. For one row, the error is that of noise and times.

    Args:
        rows: What :func:`row_bits` returned.

    >>> mean_of_rows(Estimate(torch.tensor([1.0, 3.0]), torch.zeros(2), 1)).value
    2.0
    """
    if len(rows.value) == 1:
        return Estimate(float(rows.value), float(rows.stderr), rows.n)
    return Estimate.of_mean(rows.value)
