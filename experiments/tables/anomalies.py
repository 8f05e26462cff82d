"""Find swapped cells of UCI Adult with ``model.surprise``.

    python experiments/tables/anomalies.py --data FOLDER [--steps 6000] [--seeds 8] [--out runs/anomalies] [--write]

FOLDER has adult_train.csv and adult_test.csv. Needs scikit-learn. For each seed a model is fitted to the training rows
by ``tauleap.fit`` in 6,000 steps, and in each column 2 % of the cells of the test
rows are permuted among themselves. The score of ``surprise`` was selected from five on 4,000 of the test rows, and
these are left out. The cells whose value changed are to be found; a row is to be found if one of its cells changed. The
measure is the ROC AUC, pooled over all columns for cells. Baselines: for cells the rarity of the value in its column,
-log2 of its frequency in the training rows; for rows an isolation forest of 300 trees, fitted to the training rows with
categories as indicators, and as ordinal codes. The standard errors are those of the mean over seeds: a seed changes the
model, the swaps and the forest, but not the rows. The page has the better one of the two forests. The processor time of
``log_prob`` is that of the first 10,000 of the test rows, the smaller of two measurements. The results
are written to experiments/tables/results/anomalies.json, and ``--write`` writes their table to docs/questions.md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import tauleap as tl
from tauleap.data import open_data

RESULTS = Path(__file__).with_name("results") / "anomalies.json"
FRACTION = 0.02
TIMED_ROWS, BATCHES = 10_000, [1, 2, 4, 8]
SELECTION_ROWS, SELECTION_SEED = 4000, 1
"""The test rows that served to select the score: ``test.sample(4000, random_state=1)``."""
PAGE = Path(__file__).parents[2] / "docs" / "questions.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("runs/anomalies"))
    parser.add_argument("--write", action="store_true", help="write the stored results to the page, and stop")
    arguments = parser.parse_args()
    if arguments.write:
        return write_page(json.loads(RESULTS.read_text(encoding="utf-8")))
    torch.set_num_threads(1)
    train, test = (
        pandas.read_csv(arguments.data / f"adult_{part}.csv", na_values=["NA"], keep_default_na=False)
        for part in ("train", "test")
    )
    test = test.drop(test.sample(SELECTION_ROWS, random_state=SELECTION_SEED).index).reset_index(drop=True)
    runs = []
    for seed in range(arguments.seeds):
        model, seconds = fitted(arguments.data, arguments.out, arguments.steps, seed)
        runs.append({"seed": seed, "fit_seconds": seconds} | measured(model, train, test, seed))
        print(json.dumps(runs[-1]), flush=True)
    names = [name for name in runs[0] if name != "seed"]
    result = {
        "command": f"python experiments/tables/anomalies.py --data FOLDER --steps {arguments.steps} "
        f"--seeds {arguments.seeds}",
        "rows": len(test),
        "columns": test.shape[1],
        "fraction": FRACTION,
        "mean": {name: summary([run[name] for run in runs]) for name in names},
        "runs": runs,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["mean"], indent=1))


def fitted(data: Path, out: Path, steps: int, seed: int) -> tuple[tl.Model, float]:
    """Return the model of a seed and its processor time; it is fitted if it is not in the folder."""
    folder, times = out / f"{steps}-{seed}", out / f"{steps}-{seed}.json"
    if not times.exists():
        began = time.process_time()
        opened = open_data(data / "adult_train.csv", model_missing=True)
        model = tl.fit(opened, steps=steps, seed=seed, progress=False)
        out.mkdir(parents=True, exist_ok=True)
        model.save(folder)
        times.write_text(json.dumps(round(time.process_time() - began, 1)))
    return tl.load(folder, device="cpu"), json.loads(times.read_text())


def swapped(rows: pandas.DataFrame, seed: int) -> tuple[pandas.DataFrame, np.ndarray]:
    """Return rows with cells that are permuted within their column, and which cells have another value than before."""
    rng, out = np.random.default_rng(seed), rows.copy()
    changed = np.zeros(rows.shape, dtype=bool)
    for place, name in enumerate(rows.columns):
        chosen = np.flatnonzero(rng.random(len(rows)) < FRACTION)
        values = rows[name].to_numpy().copy()
        before = values[chosen]
        values[chosen] = rng.permutation(before)
        out[name] = values
        same = (values[chosen] == before) | (pandas.isna(values[chosen]) & pandas.isna(before))
        changed[chosen, place] = ~same
    return out, changed


def measured(model: tl.Model, train: pandas.DataFrame, test: pandas.DataFrame, seed: int) -> dict[str, float]:
    """Return the AUC of every score, of all cells and of rows."""
    rows, changed = swapped(test, seed)
    began = time.process_time()
    found = model.surprise(rows)
    seconds = time.process_time() - began
    form: Any = model.form
    places = [rows.columns.get_loc(name) for name in form.site_names]
    labels, any_label = changed[:, places], changed.any(1)
    rarity = np.stack([_rarity(train[name], rows[name]) for name in form.site_names], 1)
    # The indices of the isolation forest are larger for normal rows.
    forests = {kind: -forest(train, kind, seed)(rows) for kind in ("indicators", "ordinal")}
    scores, bits = found.scores.numpy(), found.bits.numpy()
    likelihood = -model.log_prob(rows, orders=4, seed=seed).value.numpy()
    out = {
        "changed cells": float(labels.mean()),
        "changed rows": float(any_label.mean()),
        "cells: score": roc_auc_score(labels.ravel(), scores.ravel()),
        "cells: bits": roc_auc_score(labels.ravel(), bits.ravel()),
        "cells: column frequency": roc_auc_score(labels.ravel(), rarity.ravel()),
        "rows: score": roc_auc_score(any_label, found.row_scores.numpy()),
        "rows: bits": roc_auc_score(any_label, found.row_bits.numpy()),
        "rows: -log_prob": roc_auc_score(any_label, likelihood),
        "rows: isolation forest": roc_auc_score(any_label, forests["indicators"]),
        "rows: isolation forest, ordinal": roc_auc_score(any_label, forests["ordinal"]),
        "seconds of surprise": seconds,
        "seconds of log_prob, one order": _seconds(model, test, 1),
        "seconds of log_prob, one order, batches": _seconds(model, test, BATCHES),
    }
    marked = found.top(0.01).numpy()
    out["changed among the 1 % marked"] = float(labels[marked].mean())
    for site, name in enumerate(form.site_names):
        out[f"column {name}"] = roc_auc_score(labels[:, site], scores[:, site])
    return {name: round(float(value), 5) for name, value in out.items()}


def _seconds(model: tl.Model, rows: pandas.DataFrame, batches: int | list[int]) -> float:
    """Return the processor time of the likelihoods of rows along one order, the smaller of two measurements."""
    found = []
    for seed in range(2):
        began = time.process_time()
        model.log_prob(rows.iloc[:TIMED_ROWS], orders=1, batches=batches, seed=seed)
        found.append(time.process_time() - began)
    return min(found)


def _rarity(train: pandas.Series, rows: pandas.Series) -> np.ndarray:
    """Return -log2 of the frequency of each value among the training rows."""
    counts = train.value_counts(dropna=False)
    return -np.log2(rows.map(counts).fillna(0.5).to_numpy(dtype=float) / len(train))


def forest(train: pandas.DataFrame, kind: str, seed: int) -> Any:
    """Return the function that scores rows by an isolation forest."""
    categories = [name for name in train if not pandas.api.types.is_numeric_dtype(train[name])]
    numbers = [name for name in train if name not in categories]
    encoder = (
        OneHotEncoder(handle_unknown="ignore")
        if kind == "indicators"
        else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    )
    transform = make_column_transformer((encoder, categories), ("passthrough", numbers), sparse_threshold=0)

    def prepared(rows: pandas.DataFrame) -> pandas.DataFrame:
        filled = rows.copy()
        filled[categories] = filled[categories].astype(object).fillna("missing")
        return filled

    model = IsolationForest(n_estimators=300, random_state=seed, n_jobs=1)
    model.fit(transform.fit_transform(prepared(train)))
    return lambda rows: model.score_samples(transform.transform(prepared(rows)))


def write_page(result: dict[str, Any]) -> None:
    """Write the table and the times of a stored result between their marks in the documentation."""
    mean = result["mean"]
    forest_ = max(("rows: isolation forest", "rows: isolation forest, ordinal"), key=lambda name: mean[name][0])
    rows = {
        "one cell: score of `model.surprise`": "cells: score",
        "one cell: bits given the rest of the row": "cells: bits",
        "one cell: rarity of the value in its column": "cells: column frequency",
        "a row: score of `model.surprise`": "rows: score",
        "a row: sum of the bits of its cells": "rows: bits",
        "a row: `-model.log_prob`": "rows: -log_prob",
        "a row: isolation forest": forest_,
    }
    lines = ["| found by | ROC AUC | standard error |", "| --- | ---: | ---: |"]
    lines += [f"| {label} | {mean[name][0]:.3f} | {mean[name][1]:.3f} |" for label, name in rows.items()]
    lines += [
        "",
        f"*`{result['command']}`: {result['rows']:,} test rows, {len(result['runs'])} seeds; "
        f"the other {SELECTION_ROWS:,} test rows served to select the score. "
        f"{mean['changed cells'][0]:.1%} of the cells have another value after the swaps, in "
        f"{mean['changed rows'][0]:.0%} of the rows. Of the 1 % of cells with the highest scores "
        f"{mean['changed among the 1 % marked'][0]:.0%} were changed. Scoring took "
        f"{mean['seconds of surprise'][0]:.0f} s of one core. Standard errors are those over seeds: each seed has its "
        "own model, swaps and forest, and the same test rows.*",
    ]
    write_between("anomalies", lines)
    one, batches = (mean[f"seconds of log_prob, one order{more}"][0] for more in ("", ", batches"))
    write_between(
        "speed",
        [
            f"**Speed**: {TIMED_ROWS:,} of these rows of {result['columns']} columns, one order: {one:.1f} s of the "
            f"processor on one core, because equal inputs are evaluated once. With `batches={BATCHES}` it is "
            f"{batches:.1f} s."
        ],
    )


def write_between(name: str, lines: list[str]) -> None:
    """Replace the lines between two marks of the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{chr(10).join(lines)}\n{end}{after}", encoding="utf-8")


def summary(values: list[float]) -> list[float | None]:
    """Return the mean over seeds and its standard error."""
    stderr = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return [round(float(np.mean(values)), 4), None if stderr is None else round(stderr, 4)]


if __name__ == "__main__":
    main()
