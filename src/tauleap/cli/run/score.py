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
from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.table.columns.boolean import BooleanEncoder
from tauleap.data.table.columns.unseen import training_range
from tauleap.data.table.format import TableFormat
from tauleap.data.text import TextFormat
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
    part = data.select(chosen)
    found = cell_surprise(
        model.reverse,
        part,
        form=form,
        batch_size=rows_at_once(model, options.batch_size),
        condition=None if model.num_labels is None else part.condition,
        generator=_device.new_generator(_device.CPU, options.seed),
    )
    marked = _marked(found, options.mark)
    unseen = _unseen(found)
    with explaining_full_disk(out), _files.atomic_write(out) as file:
        columns = _columns(data, found, chosen, marked, unseen)
        file.write(_text(columns, "\t" if out.suffix.lower() == ".tsv" else ",").encode("utf-8"))
    number = sum(map(len, marked.values()))
    top = sorted((cell for cells in marked.values() for cell in cells), key=lambda cell: -cell["score"])[:_SHOWN]
    places = [_place(part, cell["row"]) for cell in top]
    lines = [*report]
    if len(chosen) < len(data):
        first = int((~known.flatten(1).any(1)).nonzero()[0, 0])
        empty = len(data) - len(chosen)
        lines.append(
            f"{empty:,} of {len(data):,} rows without a known value have no score, the first is {_place(data, first)}"
        )
    if unseen:
        row = min(unseen)
        lines.append(
            f"cells with values outside the training data, in the column unseen_values: "
            f"{sum(map(len, unseen.values())):,}, the first in {_place(part, row)}: {unseen[row][0]}"
        )
    if top:
        lines.append("the most surprising cells, by score:")
    lines += [
        f"{place}, score {cell['score']:.1f}, {_described(cell)}" for place, cell in zip(places, top, strict=True)
    ]
    lines.append(
        f"{number:,} of {int((~found.bits.isnan()).sum()):,} cells of {len(data):,} row{'s' * (len(data) != 1)} are "
        f"marked: {out}"
    )
    for cell in top:
        cell["row"] = int(chosen[cell["row"]])
    facts: dict[str, Any] = {
        "run": str(options.run_folder),
        "data": str(options.data),
        "rows": len(data),
        "scored_rows": len(chosen),
        "bits_per_row": float(found.row_bits.mean()) if bool(found.row_bits.isfinite().all()) else None,
        "marked": number,
        "unseen": sum(map(len, unseen.values())),
        "most_surprising": [{key: _plain(value) for key, value in cell.items()} for cell in top],
        "files": [str(out)],
        "read": report,
    }
    print_result(facts if options.json else lines)


def _place(data: Dataset, row: int) -> str:
    """Return where a row is: its line in the file, or its number from 1."""
    line = None if data.source is None else data.source.line(row)
    return f"row {row + 1:,}" if line is None else f"line {line:,}"


def _marked(found: Surprise, fraction: float) -> dict[int, list[dict[str, Any]]]:
    """Return the most surprising cells by the numbers of their rows, in the order of the scores."""
    marked: dict[int, list[dict[str, Any]]] = {}
    flat = {"score": found.scores, "bits": found.bits, "likelier_probability": found.likelier_probs}
    flat = {name: values.flatten(1) for name, values in flat.items()}
    states, likelier = found.states.flatten(1), found.likelier.flatten(1)
    labels = [_labels(found, site) for site in range(states.shape[1])]
    for row, site in found.top(fraction).flatten(1).nonzero().tolist():
        cell: dict[str, Any] = {"row": row, "column": _name(found, site), "value": found.value(row, site)}
        cell |= {name: float(values[row, site]) for name, values in flat.items()}
        best = int(likelier[row, site])
        cell |= {"likelier": labels[site][best], "is_likeliest": best == int(states[row, site])}
        marked.setdefault(row, []).append(cell)
    return {row: sorted(cells, key=lambda cell: -cell["score"]) for row, cells in marked.items()}


def _unseen(found: Surprise) -> dict[int, list[str]]:
    """Return descriptions of the cells outside the training data by the numbers of their rows."""
    unseen: dict[int, list[str]] = {}
    form = found.form
    for row, site in found.unseen.nonzero().tolist():
        text = f"{_name(found, site)} = {found.value(row, site)}"
        is_table = isinstance(form, TableFormat)
        ends = training_range(form.encoder.columns[form.encoder.sites[site]]) if is_table else None
        if ends is not None and not bool(found.bits[row, site].isnan()):
            text += f" ({ends[0]} to {ends[1]} in training)"
        unseen.setdefault(row, []).append(one_line(text, most=200))
    return unseen


def _name(found: Surprise, site: int) -> str:
    """Return the name of a column, or the position of a site."""
    name = found.names[site]
    if isinstance(found.form, TableFormat):
        return str(name)
    return f"position {site + 1}" if isinstance(found.form, SequenceFormat | TextFormat) else f"site {site}"


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
    text = f"{one_line(cell['column'], most=60)} = {shown} ({cell['bits']:.1f} bits"
    return f"{text})" if cell["is_likeliest"] else f"{text}; likelier: {likelier}, {cell['likelier_probability']:.0%})"


def _columns(
    data: Dataset,
    found: Surprise,
    chosen: torch.Tensor,
    marked: dict[int, list[dict[str, Any]]],
    unseen: dict[int, list[str]],
) -> dict[str, list[str]]:
    """Return the columns of the file with those of the scores, as texts."""
    columns: dict[str, list[str]] = {}
    if data.source is not None:
        columns = {name: cells.texts().tolist() for name, cells in data.source.columns.items()}
    elif isinstance(found.form, SequenceFormat | TextFormat):
        texts = found.form.texts(data.in_memory())
        columns["text"] = [text if isinstance(text, str) else " ".join(map(str, text)) for text in texts]
    added = {"row_score": found.row_scores, "row_bits": found.row_bits}
    new = {name: _filled(values, chosen, len(data)) for name, values in added.items()}
    described = {row: list(map(_described, cells)) for row, cells in marked.items()}
    for name, cells in {"surprising_cells": described, "unseen_values": unseen}.items():
        if name == "surprising_cells" or data.source is not None:
            new[name] = [""] * len(data)
            for row, texts in cells.items():
                new[name][int(chosen[row])] = "; ".join(texts)
    if data.source is not None:
        for site, name in enumerate(found.names):
            new[f"{name} bits"] = _filled(found.bits[:, site], chosen, len(data))
    for name, values in new.items():
        while name in columns:
            name += "_"
        columns[name] = values
    return columns


def _text(columns: dict[str, list[str]], delimiter: str) -> str:
    """Return columns as delimited text."""
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
