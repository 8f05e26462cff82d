"""Bits per row of data under a model: of its states, and of its original values."""

from __future__ import annotations

import math
from typing import Any

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
