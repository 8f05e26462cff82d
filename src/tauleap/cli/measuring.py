"""Bits/dim of a file, beside what every site by itself would give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from tauleap.cli.pattern import observed_mask
from tauleap.cli.runs import rows_of
from tauleap.data import Dataset, Form
from tauleap.data.mapped import MappedRows
from tauleap.data.table import TableForm
from tauleap.evaluate import Estimate
from tauleap.pretrained import Model


@dataclass(frozen=True)
class Measured:
    """Bits/dim, of how many rows, the entropy of the sites by themselves in the same rows, and how they were read."""

    bits: Estimate[float]
    rows: int
    independent: float | None
    told: list[str]


def measure(
    model: Model,
    form: Form,
    path: Path,
    observed: str | None,
    samples: int,
    rows: int | None,
    seed: int,
    progress: bool,
) -> Measured:
    """Rows of which nothing is left to be told are not counted."""
    data, told = form.read_and_tell(path)
    if rows is not None:
        data = rows_of(data, torch.arange(min(rows, len(data))))
    names = form.columns if isinstance(form, TableForm) else ()
    mask = None if observed is None else observed_mask(observed, form.shape, names)
    mapped = isinstance(data.x, MappedRows)  # no value is missing there, and not all rows fit into memory
    shape = (1, *data.shape) if mapped else data.x.shape
    known = torch.ones(shape, dtype=torch.bool) if data.missing is None else ~data.missing
    scored = known if mask is None else known & ~mask
    kept = scored.reshape(len(scored), -1).any(1)
    if not bool(kept.any()):
        raise ValueError(f"{path} has no values to measure: all are missing or observed")
    if not bool(kept.all()):
        data = rows_of(data, kept.nonzero().flatten())
    bits = model.bits_per_dim(data, mask, samples=samples, seed=seed, progress=progress)
    return Measured(bits, len(data), _entropy(data) if mask is None and not mapped else None, told)


def _entropy(data: Dataset) -> float:
    """Mean over the sites of the entropy of how often their states come, in bits, over the known values."""
    flat = data.in_memory().reshape(len(data), -1)
    missing = None if data.missing is None else data.missing.reshape(flat.shape)
    total, cells = 0.0, 0
    for site in range(flat.shape[1]):
        values = flat[:, site] if missing is None else flat[~missing[:, site], site]
        if len(values) == 0:
            continue
        p = torch.bincount(values.long()).double() / len(values)
        total += len(values) * float(-torch.xlogy(p, p).sum() / torch.log(torch.tensor(2.0)))
        cells += len(values)
    return total / cells
