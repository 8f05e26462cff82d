"""The work of ``tauleap score``: the bits of rows and cells, and the most surprising cells with likelier values."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import torch

from tauleap import _device, _files
from tauleap._files.full_disk import explaining_full_disk
from tauleap._files.printable import one_line
from tauleap.cli.commands.score import Score
from tauleap.cli.model import load_model, rows_at_once
from tauleap.cli.output import print_result
from tauleap.data import Dataset
from tauleap.data.table.columns.boolean import BooleanEncoder
from tauleap.data.table.format import TableFormat
from tauleap.surprise import Surprise, cell_surprise

_SHOWN = 5
"""Cells that the command prints."""


def run(options: Score, out: Path) -> None:
    """Score the rows of a file, write them, and print the most surprising cells.

    Args:
        options: The options of the command, which it has checked.
        out: The file for the result.
    """
    model, form = load_model(options.run_folder, options.device)
    data, report = form.read_with_report(options.data)
    known = data.known()
    chosen = known.flatten(1).any(1).nonzero().flatten()
    if not len(chosen):
        raise ValueError(f"{options.data} has no value that the model can read")
    found = cell_surprise(
        model.reverse,
        data.rows(chosen),
        known[chosen],
        form=form,
        batch_size=rows_at_once(model, options.batch_size),
        generator=_device.new_generator(_device.CPU, options.seed),
    )
    marked = _marked(found, options.mark)
    with explaining_full_disk(out), _files.atomic_write(out) as file:
        file.write(_text(data, found, chosen, marked, "\t" if out.suffix.lower() == ".tsv" else ",").encode("utf-8"))
    number = sum(map(len, marked.values()))
    top = sorted((cell for cells in marked.values() for cell in cells), key=lambda cell: -cell["score"])[:_SHOWN]
    for cell in top:
        cell["row"] = int(chosen[cell["row"]])
    facts: dict[str, Any] = {
        "run": str(options.run_folder),
        "data": str(options.data),
        "rows": len(data),
        "scored_rows": len(chosen),
        "bits_per_row": float(found.row_bits.mean()) if bool(found.row_bits.isfinite().all()) else None,
        "marked": number,
        "most_surprising": [{key: _plain(value) for key, value in cell.items()} for cell in top],
        "files": [str(out)],
        "read": report,
    }
    lines = [*report]
    if len(chosen) < len(data):
        first = int((~known.flatten(1).any(1)).nonzero()[0, 0]) + 1
        empty = len(data) - len(chosen)
        lines.append(f"{empty:,} of {len(data):,} rows without a known value have no score, first row {first:,}")
    if top:
        lines.append("the most surprising cells, by score:")
    lines += [f"row {cell['row'] + 1:,}, score {cell['score']:.1f}, {_described(cell)}" for cell in top]
    lines.append(
        f"{number:,} of {int(known.sum()):,} cells of {len(data):,} row{'s' * (len(data) != 1)} are marked: {out}"
    )
    print_result(facts if options.json else lines)


def _marked(found: Surprise, fraction: float) -> dict[int, list[dict[str, Any]]]:
    """Return the most surprising cells by the numbers of their rows, in the order of the scores."""
    marked: dict[int, list[dict[str, Any]]] = {}
    flat = {"score": found.scores, "bits": found.bits, "likelier_probability": found.likelier_probs}
    flat = {name: values.flatten(1) for name, values in flat.items()}
    states, likelier, names = found.states.flatten(1), found.likelier.flatten(1), found.names
    labels = [_labels(found, site) for site in range(states.shape[1])]
    for row, site in found.top(fraction).flatten(1).nonzero().tolist():
        cell: dict[str, Any] = {"row": row, "column": names[site], "value": labels[site][int(states[row, site])]}
        cell |= {name: float(values[row, site]) for name, values in flat.items()}
        marked.setdefault(row, []).append(cell | {"likelier": labels[site][int(likelier[row, site])]})
    return {row: sorted(cells, key=lambda cell: -cell["score"]) for row, cells in marked.items()}


def _labels(found: Surprise, site: int) -> Any:
    """Return the labels of the states of a column, booleans in the words of the file."""
    labels = found.labels(site)
    if not isinstance(found.form, TableFormat):
        return labels
    encoder = found.form.encoder.columns[found.form.encoder.sites[site]].encoder
    if not isinstance(encoder, BooleanEncoder):
        return labels
    return [*encoder.words, *labels[len(encoder.words) :]]


def _described(cell: dict[str, Any]) -> str:
    """Return one surprising cell as text."""
    shown, likelier = (
        "missing" if cell[key] is None else one_line(str(cell[key]), most=60) for key in ("value", "likelier")
    )
    name = one_line(str(cell["column"]), most=60)
    text = f"{name} = {shown} ({cell['bits']:.1f} bits"
    return f"{text})" if shown == likelier else f"{text}; likelier: {likelier}, {cell['likelier_probability']:.0%})"


def _text(
    data: Dataset, found: Surprise, chosen: torch.Tensor, marked: dict[int, list[dict[str, Any]]], delimiter: str
) -> str:
    """Return the columns of the file with those of the scores as delimited text."""
    columns: dict[str, list[str]] = {}
    if data.source is not None:
        columns = {name: cells.texts().tolist() for name, cells in data.source.columns.items()}
    added = {"row_score": found.row_scores, "row_bits": found.row_bits}
    new = {name: _filled(values, chosen, len(data)) for name, values in added.items()}
    cells = ["; ".join(map(_described, marked.get(row, []))) for row in range(len(chosen))]
    new["surprising_cells"] = [""] * len(data)
    for row, text in zip(chosen.tolist(), cells, strict=True):
        new["surprising_cells"][row] = text
    if data.source is not None:
        for site, name in enumerate(found.names):
            new[f"{name} bits"] = _filled(found.bits[:, site], chosen, len(data))
    for name, values in new.items():
        while name in columns:
            name += "_"
        columns[name] = values
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _filled(values: torch.Tensor, chosen: torch.Tensor, rows: int) -> list[str]:
    """Return numbers of some rows as texts of all rows; those of the others are empty."""
    texts = [""] * rows
    for row, value in zip(chosen.tolist(), values.tolist(), strict=True):
        texts[row] = "" if math.isnan(value) else f"{value:.3f}"
    return texts


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else str(value)
