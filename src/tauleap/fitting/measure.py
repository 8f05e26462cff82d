"""Measure bits/dim of held-out rows, and select the checkpoint with the lowest."""

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

from tauleap import _device
from tauleap._files import safe_read
from tauleap.data import Dataset
from tauleap.evaluate import Comparison, Estimate, bits_per_dim
from tauleap.fitting.baseline import independent_rows, varying_sites
from tauleap.model import Model
from tauleap.row_bits import original_bits, sequence_bits
from tauleap.training import Result

_LAST_SECONDS, _MOST_SECONDS = 20.0, 300.0
"""Limits in seconds for measuring without a budget, which otherwise takes as long as training. The upper limit was
chosen because the connections of ranks that wait would time out."""


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
    """Return the best checkpoint and its model, whose ``about`` has the measurements on held-out rows.

    Args:
        folder: The folder of the run.
        result: The result of training.
        rows: The training rows.
        held_out: The held-out rows.
        load_model: Loads the model of a checkpoint.
        seed: The seed of the noise.
        began: The value of ``time.monotonic()`` when the budget began.
        end: The value of ``time.monotonic()`` when the budget ends; infinity without a budget.

    Returns:
        The folder of the checkpoint, and its model.
    """
    now = time.monotonic()
    if result.stopped.startswith("SIG"):  # A user who stops a run should not wait long.
        end = min(end, now + _LAST_SECONDS)
    elif math.isinf(end):
        end = now + min(max(_LAST_SECONDS, now - began), _MOST_SECONDS)
    best, model, bits = better_checkpoint(folder, result.checkpoint, load_model, held_out, seed, end)
    found = Comparison.of(bits, independent_rows(rows, held_out, len(bits)))
    varying = varying_sites(rows)
    measured = held_out.select(torch.arange(len(bits)))
    whole_rows = {}
    shown, unit = found, "bits/dim"
    if measured.sequences is not None:
        each = sequence_bits(measured, None, bits.cpu(), model.form)
        whole_rows = {name: _as_numbers(estimate) for name, estimate in each.as_json().items()}
        # Sites behind the end of a row have hardly any bits, so that bits per site depend on the longest row.
        factor = each.per_symbol.value / max(found.model.value, 1e-12)
        shown = Comparison.of(factor * bits, factor * independent_rows(rows, held_out, len(bits)))
        unit = "bits/symbol"
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
        "interpretation": shown.sentence(varying_sites=varying, unit=unit),
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
        folder: The folder of the run.
        last: The last checkpoint.
        load_model: Loads the model of a checkpoint.
        data: The held-out rows.
        seed: The seed of the noise.
        deadline: The value of ``time.monotonic()`` at which to end; at least one batch is measured.

    Returns:
        The checkpoint, its model, and bits/dim of each row that was measured before the deadline.
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
    """Return the checkpoint with the lowest bits/dim in the validation log, since models of small data overfit."""
    try:
        text = safe_read.read_bytes(folder / "validation.csv", inside=folder).decode()
        bits = {int(row["step"]): float(row["bits_per_dim"]) for row in csv.DictReader(io.StringIO(text, newline=""))}
    except (OSError, ValueError, KeyError, TypeError):
        return last
    checkpoints = {step: folder / f"step-{step:08d}" for step in bits}
    checkpoints = {step: path for step, path in checkpoints.items() if path.is_dir()}
    if not checkpoints:
        return last
    best = min(checkpoints, key=lambda step: bits[step])
    return last if best == max(checkpoints) else checkpoints[best]


def seconds_for_measuring(seconds: float) -> float:
    """Return the seconds of a budget that are reserved for loading, measuring and saving after training.

    Args:
        seconds: The budget; infinity without a budget.

    >>> seconds_for_measuring(60.0)
    7.0
    """
    return 0.0 if math.isinf(seconds) else 1.0 + min(0.1 * seconds, 30.0)


def _measured(model: Model, data: Dataset, seed: int, deadline: float) -> Tensor:
    """Return bits/dim of each row that is measured before the deadline."""
    generator = _device.new_generator(_device.CPU, seed)
    # With many sites, few random times per row are accurate enough.
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
    """Return an estimate in types that JSON can hold, with None for infinity and NaN."""
    value, stderr = (number if math.isfinite(number) else None for number in (estimate.value, estimate.stderr))
    return {"value": value, "stderr": stderr, "n": estimate.n}
