"""Measure what the encoders of a table lose: encode rows and decode them again, without a model.

    pip install scikit-learn pandas
    python diagnostics/table_round_trip.py FOLDER [--seeds 5] [--only NAME ...]

FOLDER has adult_train.csv, adult_test.csv, default.csv, shoppers.csv, magic.csv and beijing.csv, which are not part of
the project. scikit-learn is needed here only; it is no dependency of the package or of its tests.

- C2ST: the AUC of gradient boosting that separates the rows of one random half from decoded rows of the other half, on
  rows that it was not trained with. It is .5 if decoded rows look like real ones. Target: a mean of .48 to .52.
- Classifier: the AUC on real test rows of Adult after training on decoded rows. Target: within .003 of real rows.
- Categories: text and boolean columns are equal to the originals, cell by cell, as are the places of missing values.
- Speed: processor time to read and encode 100,000 rows of 30 columns on one core. Target: 5 s.
- Width: a file of 1,000 columns is read, encoded, decoded and written.

The script prints one line per figure and ends with exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas

from tauleap.data.columns import TableEncoder
from tauleap.data.delimited import read_delimited, write_delimited

TABLES = {"adult": "adult_train.csv", **{name: f"{name}.csv" for name in ("default", "shoppers", "magic", "beijing")}}
_ROWS, _COLUMNS, _SECONDS = 100_000, 30, 5.0
_failures: list[str] = []


def main() -> int:
    """Run the measurements that the arguments name and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of the five tables")
    parser.add_argument("--seeds", type=int, default=5, help="random halves and decodings per table; 5 by default")
    parser.add_argument("--only", nargs="*", choices=[*TABLES, "speed", "width"], help="parts to run; all by default")
    options = parser.parse_args()
    chosen = options.only or [*TABLES, "speed", "width"]
    for name, file in TABLES.items():
        if name in chosen:
            measure_table(name, options.folder / file, options.seeds)
    if "adult" in chosen:
        measure_classifier(options.folder, options.seeds)
    if "speed" in chosen:
        measure_speed()
    if "width" in chosen:
        measure_width()
    for failure in _failures:
        print(f"MISSED: {failure}")
    return int(bool(_failures))


def measure_table(name: str, path: Path, seeds: int) -> None:
    """Print whether categories are exact, and the mean C2ST over seeds."""
    raw = read_delimited(path)
    encoder = TableEncoder.fit(raw, model_missing=True)
    states = encoder.encode(raw).states
    types = {column.name: column.encoder.type for column in encoder.columns}
    modelled = [column.name for column in encoder.columns if column.encoder.type != "id"]
    real = pandas.read_csv(path, low_memory=False)
    check(f"{name}: problems of the file", f"{len(raw.problems)}", not raw.problems)
    aucs = []
    for seed in range(seeds):
        decoded = decode(encoder, states, seed)
        if seed == 0:
            exact = [column for column, type_ in types.items() if type_ in ("category", "boolean")]
            equal = all(decoded[column].equals(real[column]) for column in exact)
            check(f"{name}: {len(exact)} columns of categories and booleans", "exact" if equal else "differ", equal)
            check(f"{name}: missing cells", "the same", bool((decoded.isna() == real.isna()).all(axis=None)))
        aucs.append(c2st(real[modelled], decoded[modelled], seed))
    mean, spread = float(np.mean(aucs)), float(np.std(aucs, ddof=1)) if seeds > 1 else float("nan")
    shown = f"{mean:.4f} (standard deviation {spread:.4f}; {', '.join(f'{auc:.3f}' for auc in aucs)})"
    check(f"{name}: C2ST, {len(real):,} rows, mean of {seeds} seeds", shown, 0.48 <= mean <= 0.52)


def decode(encoder: TableEncoder, states: np.ndarray, seed: int) -> pandas.DataFrame:
    """Return decoded rows as pandas reads the file that the package writes."""
    text = io.StringIO(newline="")
    write_delimited(encoder.decode(states, np.random.default_rng(seed)), text)
    text.seek(0)
    return pandas.read_csv(text, low_memory=False)


def c2st(real: pandas.DataFrame, decoded: pandas.DataFrame, seed: int) -> float:
    """Return the AUC of a classifier between real rows of one half and decoded rows of the other half."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    order = np.random.default_rng(seed).permutation(len(real))
    half = len(real) // 2
    first, second = order[:half], order[half : 2 * half]
    rows = pandas.concat([real.iloc[first], decoded.iloc[second]], ignore_index=True)
    labels = np.repeat([0, 1], half)
    x = features(rows)
    train = np.random.default_rng(seed + 1000).random(len(x)) < 0.5
    model = HistGradientBoostingClassifier(random_state=seed).fit(x[train], labels[train])
    return float(roc_auc_score(labels[~train], model.predict_proba(x[~train])[:, 1]))


def features(rows: pandas.DataFrame) -> np.ndarray:
    """Return numbers as they are and other columns as the codes of their sorted categories."""
    columns = [
        rows[name] if rows[name].dtype.kind in "iuf" else rows[name].astype("category").cat.codes.replace(-1, np.nan)
        for name in rows.columns
    ]
    return np.stack([column.to_numpy(np.float64) for column in columns], axis=1)


def measure_classifier(folder: Path, seeds: int) -> None:
    """Print the AUC on Adult's test rows after training on real rows and on decoded rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    raw = read_delimited(folder / TABLES["adult"])
    encoder = TableEncoder.fit(raw, model_missing=True)
    states = encoder.encode(raw).states
    real, test = pandas.read_csv(folder / TABLES["adult"]), pandas.read_csv(folder / "adult_test.csv")

    def auc(train: pandas.DataFrame, seed: int) -> float:
        x = features(pandas.concat([train, test], ignore_index=True))
        x, labels = x[:, :-1], x[:, -1]
        model = HistGradientBoostingClassifier(random_state=seed).fit(x[: len(train)], labels[: len(train)])
        return float(roc_auc_score(labels[len(train) :], model.predict_proba(x[len(train) :])[:, 1]))

    on_real = np.array([auc(real, seed) for seed in range(seeds)])
    on_decoded = np.array([auc(decode(encoder, states, seed), seed) for seed in range(seeds)])
    loss = float((on_real - on_decoded).mean())
    shown = f"{on_real.mean():.4f} on real rows, {on_decoded.mean():.4f} on decoded rows, loss {loss:.4f}"
    check(f"adult: AUC of a classifier, mean of {seeds} seeds", shown, abs(loss) <= 0.003)


def measure_speed() -> None:
    """Print the processor time to read and encode a large file of all column types."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        write_large(path, _ROWS, _COLUMNS)
        start = time.process_time()
        raw = read_delimited(path)
        read = time.process_time() - start
        encoder = TableEncoder.fit(raw)
        states = encoder.encode(raw).states
        total = time.process_time() - start
        size = path.stat().st_size / 1e6
    types = ", ".join(sorted({column.encoder.type for column in encoder.columns}))
    shown = f"{total:.2f} s of processor time ({read:.2f} s to read {size:.0f} MB; {types})"
    check(f"{len(states):,} rows x {len(encoder.columns)} columns", shown, total <= _SECONDS)


def measure_width() -> None:
    """Print whether a file of 1,000 columns comes back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wide.csv")
        write_large(path, 500, 1000)
        start = time.process_time()
        raw = read_delimited(path)
        encoder = TableEncoder.fit(raw)
        states = encoder.encode(raw).states
        decoded = decode(encoder, states, 0)
        seconds = time.process_time() - start
        same = list(decoded.columns) == path.read_text().partition("\n")[0].split(",")
    shown = f"{decoded.shape[0]} rows, {decoded.shape[1]:,} columns, {seconds:.2f} s of processor time"
    check("1,000 columns", shown, same and decoded.shape == (500, 1000))


def write_large(path: Path, rows: int, columns: int) -> None:
    """Write a table in which columns of normal numbers, whole numbers, categories, dates, booleans and codes repeat."""
    draw = np.random.default_rng(0)
    days = np.datetime64("2015-01-01") + draw.integers(0, 3000, rows)
    made = []
    for place in range(columns):
        kinds = (
            lambda: np.char.mod("%.4f", draw.normal(100, 30, rows)),
            lambda: np.char.mod("%d", draw.integers(0, 10**6, rows)),
            lambda: np.char.add("group ", np.char.mod("%d", draw.integers(0, 40, rows))),
            lambda: np.roll(days, draw.integers(rows)).astype(str),
            lambda: np.where(draw.random(rows) < 0.3, "yes", "no"),
            lambda: np.where(draw.random(rows) < 0.1, "", np.char.mod("%.2f", draw.exponential(20, rows))),
        )
        made.append(kinds[place % len(kinds)]().tolist())
    with path.open("w") as file:
        file.write(",".join(f"c{place}" for place in range(columns)) + "\n")
        file.writelines(",".join(row) + "\n" for row in zip(*made, strict=True))


def check(what: str, shown: str, reached: bool) -> None:
    """Print a figure, and remember it if it misses its target."""
    print(f"{what}: {shown}", flush=True)
    if not reached:
        _failures.append(f"{what}: {shown}")


if __name__ == "__main__":
    sys.exit(main())
