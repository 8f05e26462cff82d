"""Bits/dim of held-out rows, and the checkpoint that is best by them."""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tauleap._files import safe_read
from tauleap.data import Dataset
from tauleap.evaluate import Comparison, Estimate, bits_per_dim
from tauleap.fitting.baseline import independent_rows, varying_sites
from tauleap.model import Model
from tauleap.row_bits import original_bits
from tauleap.training import Result

_LAST_SECONDS, _MOST_SECONDS = 20.0, 300.0
"""For measuring, where there is no other limit: as long as training took, but between these. Other ranks wait for it,
and their connection does not stay open for ever."""


def measured_model(
    folder: Path,
    result: Result,
    rows: Dataset,
    held_out: Dataset,
    *,
    load_model: Callable[[Path], Model],
    seed: int,
    began: float,
    end: float,
) -> tuple[Path, Model]:
    """Return the best checkpoint and its model, whose ``about`` says how good it is on held-out rows.

    Args:
        folder: of the run.
        result: how training ended.
        rows: those that were trained with.
        held_out: those to measure with.
        load_model: loads the model of a checkpoint.
        seed: of the noise.
        began: when everything began, as ``time.monotonic()`` counts.
        end: when the budget ends; infinite where there is none.
    """
    now = time.monotonic()
    if result.stopped.startswith("SIG"):  # who stops a run does not want to wait
        end = min(end, now + _LAST_SECONDS)
    elif math.isinf(end):
        end = now + min(max(_LAST_SECONDS, now - began), _MOST_SECONDS)
    best, model, bits = better_checkpoint(folder, result.checkpoint, load_model, held_out, seed, end)
    found = Comparison.of(bits, independent_rows(rows, held_out, len(bits)))
    varying = varying_sites(rows)
    measured = held_out.select(torch.arange(len(bits)))
    whole_rows = {}
    if measured.source is not None:
        whole_rows["bits_per_row"] = _as_numbers(
            Estimate.of_mean(original_bits(model.form, measured, None, bits.cpu()))
        )
    model.about = {
        "rows": len(rows),
        "missing": 0 if rows.missing is None else int(rows.missing.sum()),
        "step": int(best.name.rpartition("-")[2]),
        "steps_trained": result.step,
        "stopped": result.stopped,
        "weights": sum(p.numel() for p in model.reverse.parameters()),
        "bits_per_dim": _as_numbers(found.model),
        "independent_bits_per_dim": _as_numbers(found.independent),
        "gain_over_independent": _as_numbers(found.gain),
        "better_than_independent": found.verdict(varying_sites=varying),
        "interpretation": found.sentence(varying_sites=varying),
        "held_out_rows": len(held_out),
    } | whole_rows
    return best, model


def better_checkpoint(
    folder: Path,
    last: Path,
    load_model: Callable[[Path], Model],
    data: Dataset,
    seed: int,
    deadline: float,
) -> tuple[Path, Model, Tensor]:
    """Return the last checkpoint, or an earlier one that is better by two standard errors on the same rows and noise.

    Args:
        folder: of the run.
        last: the last checkpoint.
        load_model: loads the model of a checkpoint.
        data: the held-out rows.
        seed: of the noise.
        deadline: when to end, as ``time.monotonic()`` counts; one batch is measured in any case.

    Returns:
        The checkpoint, its model, and bits/dim of each row that there was time for.
    """
    best = _best(folder, last)
    model = load_model(last)
    if best == last:
        return last, model, _measured(model, data, seed, deadline)
    now = time.monotonic()
    bits = _measured(model, data, seed, now + (deadline - now) / 2)
    earlier = load_model(best)
    bits_then = _measured(earlier, data, seed, deadline)
    n = min(len(bits), len(bits_then))
    gain = Estimate.of_mean(bits[:n] - bits_then[:n])
    if gain.value > 2 * gain.stderr:
        return best, earlier, bits_then
    return last, model, bits


def _best(folder: Path, last: Path) -> Path:
    """The checkpoint that seemed best on held-out rows: the last, unless the bits/dim have risen since an earlier one.

    Small data is learnt by heart when there is time for it.
    """
    try:
        text = safe_read.read_bytes(folder / "validation.csv", inside=folder).decode()
        looks = {int(row["step"]): float(row["bits_per_dim"]) for row in csv.DictReader(io.StringIO(text, newline=""))}
    except (OSError, ValueError, KeyError, TypeError):
        return last
    kept = {step: folder / f"step-{step:08d}" for step in looks}
    kept = {step: path for step, path in kept.items() if path.is_dir()}
    if not kept:
        return last
    best = min(kept, key=lambda step: looks[step])
    return last if best == max(kept) else kept[best]


def seconds_for_measuring(seconds: float) -> float:
    """Return the part of a budget that is reserved for the end: loading, bits/dim, and saving.

    Args:
        seconds: the budget; infinite where there is none.
    """
    return 0.0 if math.isinf(seconds) else 1.0 + min(0.1 * seconds, 30.0)


def _measured(model: Model, data: Dataset, seed: int, deadline: float) -> Tensor:
    """Bits/dim of each of as many rows as there is time for."""
    generator = torch.Generator().manual_seed(seed)
    # Many sites tell as much of one time as few sites of many.
    times = max(2, min(8, 512 // math.prod(data.shape)))
    size = max(1, min(256, model.default_batch_size() // times))
    values: list[Tensor] = []
    longest, begin = 0.0, 0
    while begin < len(data) and (begin == 0 or time.monotonic() + longest < deadline):
        start = time.monotonic()
        index = torch.arange(begin, min(begin + size, len(data)))
        rows = data.batch(index, model.device)
        estimate = bits_per_dim(
            model.reverse,
            rows.x,
            samples=times,
            batch_size=model.default_batch_size(),
            per_datapoint=True,
            missing=rows.missing,
            condition=rows.condition,
            generator=generator,
        )
        values.append(estimate.value)
        longest, begin = max(longest, time.monotonic() - start), begin + size
    return torch.cat(values)


def _as_numbers(estimate: Estimate[float]) -> dict[str, Any]:
    """Return an estimate as JSON can hold it, with None for what is not finite."""
    value, stderr = (number if math.isfinite(number) else None for number in (estimate.value, estimate.stderr))
    return {"value": value, "stderr": stderr, "n": estimate.n}
