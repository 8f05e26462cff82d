"""The work of ``tauleap complete --mode best`` and ``--mode probabilities``: one network evaluation per row."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import torch

from tauleap import _device, _files
from tauleap._files.full_disk import explaining_full_disk
from tauleap.cli.commands.complete import Complete
from tauleap.cli.model import rows_at_once
from tauleap.cli.observed import observed_values
from tauleap.cli.output import files_line, print_result
from tauleap.data import Dataset, Format
from tauleap.data.table.format import TableFormat
from tauleap.model import Model
from tauleap.prediction import best_rows, predict_sites, probability_tables

_SMALLEST = 1e-6
"""Probabilities below it are left out of the file: a column has up to 1,000 states for each unknown cell."""


def predict(
    options: Complete, model: Model, form: Format, data: Dataset, file: Path | None, out: Path, report: list[str]
) -> None:
    """Predict the unknown values of rows, write them, and print where the files are.

    Args:
        options: The options of the command, which it has checked.
        model: The model.
        form: The format of the rows.
        data: The rows; missing values are unknown.
        file: Their file, for messages.
        out: The folder for the result.
        report: Lines about the file.
    """
    if options.mode == "probabilities" and not isinstance(form, TableFormat):
        raise ValueError(
            f"--mode probabilities is for models of tables, and this is a model of {form.kind}: write --mode best, or "
            "predict_proba in Python"
        )
    observed = observed_values(options.observed, form, data, file)
    rows = data.rows(torch.arange(len(data)))
    predictions = predict_sites(
        model.reverse,
        rows,
        data.known() & observed,
        batch_size=rows_at_once(model, options.batch_size),
        generator=_device.new_generator(_device.CPU, options.seed),
    )
    with explaining_full_disk(out), _files.staged_dir(out) as unfinished:
        if isinstance(form, TableFormat) and options.mode == "probabilities":
            names = [_write_probabilities(probability_tables(predictions, form, None), unfinished)]
        else:
            best, shown = best_rows(predictions, rows, form)
            written = (shown or form).write_completed(best, observed, data, unfinished, stem="completed")
            names = [path.name for path in written]
    files = [out / name for name in names]
    filled = int(form.filled(data, observed).sum())
    facts: dict[str, Any] = {"run": str(options.run_folder), "mode": options.mode, "rows": len(data), "filled": filled}
    facts |= {"files": [str(path) for path in files], "read": report}
    line = f"{filled} values of {len(data)} rows predicted: {files_line(files, out)}"
    print_result(facts if options.json else [*report, *_shown(form, files[0]), line])


def _write_probabilities(tables: dict[str, Any], folder: Path) -> str:
    """Write one line per unknown cell and state, with the row from 0, and return the name of the file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["row", "column", "value", "probability"])
    for name, table in tables.items():
        labels = ["" if _is_missing(label) else label for label in table.columns]
        for row, probs in zip(table.index.tolist(), table.to_numpy().tolist(), strict=True):
            pairs = sorted(zip(probs, labels, strict=True), key=lambda pair: -pair[0])
            writer.writerows([row, name, label, f"{p:.6f}"] for p, label in pairs if p >= _SMALLEST)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "probabilities.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
    return "probabilities.csv"


def _is_missing(label: object) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def _shown(form: Format, file: Path) -> list[str]:
    """Return the first rows of the file of a table; the files of other formats are not text."""
    if not isinstance(form, TableFormat) or file.name == "probabilities.csv":
        return []
    return [form.preview_file(file, min(3, form.preview_rows))]
