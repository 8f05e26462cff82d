"""The work of ``tauleap evaluate``: bits/dim of a file, and the baseline of independent sites."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from tauleap import _device
from tauleap.cli.commands.evaluate import Evaluate
from tauleap.cli.model import load_model
from tauleap.cli.observed import observed_mask
from tauleap.cli.output import print_result
from tauleap.data import Dataset
from tauleap.data.array.memory_map import MappedRows
from tauleap.row_bits import mean_of_rows, original_bits, row_bits, sequence_bits


def run(options: Evaluate) -> None:
    """Print bits/dim of a file, and that of independent sites. Rows without values to measure are skipped.

    Args:
        options: The options of the command, which it has checked.
    """
    model, form = load_model(options.run_folder, options.device)
    path = options.data
    data, report = form.read_with_report(path)
    if data.condition is not None and model.num_labels is None:
        data = replace(data, condition=None)
    if options.rows is not None:
        data = data.select(torch.arange(min(options.rows, len(data))))
    mask = None if options.observed is None else observed_mask(options.observed, form.shape, form.site_names)
    mapped = isinstance(data.x, MappedRows)  # no value is missing there, and not all rows fit into memory
    known = torch.ones(1, *data.shape, dtype=torch.bool) if mapped else data.known()
    scored = known if mask is None else known & ~mask
    has_values = scored.reshape(len(scored), -1).any(1)
    if not bool(has_values.any()):
        raise ValueError(f"{path} has no values to measure: all are missing or in --observed")
    if not bool(has_values.all()):
        data = data.select(has_values.nonzero().flatten())
    each = row_bits(
        model.reverse,
        form,
        data,
        mask,
        samples=options.samples,
        batch_size=model.default_batch_size(),
        generator=_device.new_generator(_device.CPU, options.seed),
        condition=data.condition,
        progress=not options.json,
    )
    bits, bits_of_row = mean_of_rows(each), None
    if data.source is not None:
        bits_of_row = mean_of_rows(replace(each, value=original_bits(form, data, mask, each.value)))
    independent = _entropy(data) if mask is None and not mapped else None
    facts = {
        "run": str(options.run_folder),
        "data": str(path),
        "bits_per_dim": bits.value,
        "stderr": bits.stderr if math.isfinite(bits.stderr) else None,
        "rows": len(data),
        "bits_per_row": None if bits_of_row is None else bits_of_row.value,
        "bits_per_row_stderr": (
            None if bits_of_row is None or not math.isfinite(bits_of_row.stderr) else bits_of_row.stderr
        ),
        "independent_bits_per_dim": independent,
        "read": report,
    }
    lines = [*report, f"{bits} bits/dim of {len(data)} rows"]
    if data.sequences is not None:
        found = sequence_bits(data, mask, each.value, form)
        facts |= {name: estimate.value for name, estimate in found.as_json().items()}
        facts |= {f"{name}_stderr": _finite(estimate.stderr) for name, estimate in found.as_json().items()}
        lines[-1] = f"{len(data)} rows of symbols:\n{found}"
        if independent is not None:
            # The same bits in another unit: sites behind the end of a row are not counted.
            independent *= found.per_symbol.value / bits.value
            facts["independent_bits_per_symbol"] = independent
    if bits_of_row is not None:
        lines[-1] = f"{bits} bits per encoded cell (bits/dim) of {len(data)} rows"
        lines.append(f"{bits_of_row} bits per row of original values, including their position inside bins")
    if independent is not None:
        unit = "bits/dim" if data.sequences is None else "bits per symbol"
        lines.append(f"{independent:.4f} {unit} of the baseline: independent sites, with the frequencies of these rows")
    print_result(facts if options.json else lines)


def _finite(number: float) -> float | None:
    """Return a number that JSON can hold."""
    return number if math.isfinite(number) else None


def _entropy(data: Dataset) -> float:
    """Return the mean entropy of the sites in bits, from the frequencies of the known values."""
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
