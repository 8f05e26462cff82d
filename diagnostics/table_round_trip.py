"""Measure what the encoders of a table lose: encode rows and decode them again, without a model.

    pip install scikit-learn pandas
    python diagnostics/table_round_trip.py FOLDER [--seeds 5] [--only NAME ...] [--also FILE ...]

FOLDER has adult_train.csv, adult_test.csv, default.csv, shoppers.csv, magic.csv and beijing.csv, which are not part of
the project; ``--also`` measures any other tables in the same way. scikit-learn is needed here only; it is no dependency
of the package or of its tests.

- C2ST: the AUC of gradient boosting that separates the rows of one random half from decoded rows of the other half, on
  rows that it was not trained with. It is .5 if decoded rows look like real ones. Target: a mean of .48 to .52.
- C2ST, bins of one half: the same, with bins and frequent categories that follow from the decoded half alone, as in
  ``tl.fit``: the encoder has not seen the real rows that it is compared with. Target: the same.
- C2ST, both copies: all rows and all decoded rows, 80 % of them to train the classifier; the two copies of a row are
  on the same side. It sees the dependence of columns within bins, which decoding loses: each column is drawn inside its
  bin by itself. No target: it is a limit of bins, and larger numbers are expected.
- Classifier: the AUC on real test rows of Adult after training on decoded rows. Target: within .003 of real rows.
- Categories: text and boolean columns, and numbers whose states are single values, are equal to the originals, cell by
  cell, as are the places of missing values.
- Speed: processor time to read and encode 100,000 rows of 30 columns on one core. Target: 5 s.
- Readers: the processor time of pandas and pyarrow for the same file.
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

from tauleap.data.table.columns import Column, NumberEncoder, TableEncoder
from tauleap.data.table.csv import read_delimited, write_delimited

TABLES = {"adult": "adult_train.csv", **{name: f"{name}.csv" for name in ("default", "shoppers", "magic", "beijing")}}
_ROWS, _COLUMNS, _SECONDS = 100_000, 30, 5.0
_PARTS = ("speed", "readers", "width")
_failures: list[str] = []


def main() -> int:
    """Run the measurements that the arguments name and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="folder of the five tables")
    parser.add_argument("--seeds", type=int, default=5, help="random halves and decodings per table; 5 by default")
    parser.add_argument("--only", nargs="*", choices=[*TABLES, *_PARTS], help="parts to run; all by default")
    parser.add_argument("--also", nargs="*", type=Path, default=[], help="other tables, delimited text with names")
    options = parser.parse_args()
    chosen = options.only if options.only is not None else [*TABLES, *_PARTS]
    for name, file in TABLES.items():
        if name in chosen:
            measure_table(name, options.folder / file, options.seeds)
    for path in options.also:
        measure_table(path.stem, path, options.seeds)
    if "adult" in chosen:
        measure_classifier(options.folder, options.seeds)
    if "speed" in chosen:
        measure_speed()
    if "readers" in chosen:
        measure_readers()
    if "width" in chosen:
        measure_width()
    for failure in _failures:
        print(f"MISSED: {failure}")
    return int(bool(_failures))


def measure_table(name: str, path: Path, seeds: int) -> None:
    """Print whether categories are exact, and the mean of each C2ST over seeds."""
    raw = read_delimited(path)
    encoder = TableEncoder.fit(raw, model_missing=True)
    states = encoder.encode(raw).states
    modelled = [column.name for column in encoder.columns if column.modelled]
    real = pandas.read_csv(path, low_memory=False)
    check(f"{name}: problems of the file", f"{len(raw.problems)}", not raw.problems)
    aucs: dict[str, list[float]] = {"C2ST": [], "C2ST, bins of one half": [], "C2ST, both copies": []}
    for seed in range(seeds):
        decoded = decode(encoder, states, seed)
        if seed == 0:
            exact = [column.name for column in encoder.columns if has_single_values(column)]
            same = (decoded[exact] == real[exact]) | (decoded[exact].isna() & real[exact].isna())
            equal = bool(same.all(axis=None))
            check(f"{name}: {len(exact)} columns of single values", "exact" if equal else "differ", equal)
            check(f"{name}: missing cells", "the same", bool((decoded.isna() == real.isna()).all(axis=None)))
        first, second = halves(len(real), seed)
        own = encoder.refit(raw.select(second))
        fresh = decode(own, own.encode(raw.select(second)).states, seed)
        rows = real.iloc[first][modelled]
        aucs["C2ST"].append(c2st(rows, decoded.iloc[second][modelled], seed))
        aucs["C2ST, bins of one half"].append(c2st(rows, fresh[modelled], seed))
        aucs["C2ST, both copies"].append(c2st(real[modelled], decoded[modelled], seed, copies=True))
    for what, values in aucs.items():
        mean, spread = float(np.mean(values)), float(np.std(values, ddof=1)) if seeds > 1 else float("nan")
        shown = f"{mean:.4f} (standard deviation {spread:.4f}; {', '.join(f'{auc:.3f}' for auc in values)})"
        reached = 0.48 <= mean <= 0.52 or what.endswith("copies")
        check(f"{name}: {what}, {len(real):,} rows, mean of {seeds} seeds", shown, reached)


def has_single_values(column: Column) -> bool:
    """Return whether every state of a column stands for one value."""
    if isinstance(column.encoder, NumberEncoder):
        return all(len(knots) == 1 for knots in column.encoder.knots)
    return column.encoder.type in ("category", "boolean", "constant")


def halves(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two random halves of the rows."""
    order = np.random.default_rng(seed).permutation(rows)
    half = rows // 2
    return order[:half], order[half : 2 * half]


def decode(encoder: TableEncoder, states: np.ndarray, seed: int) -> pandas.DataFrame:
    """Return decoded rows as pandas reads the file that the package writes."""
    text = io.StringIO(newline="")
    write_delimited(encoder.decode(states, np.random.default_rng(seed)), text)
    text.seek(0)
    return pandas.read_csv(text, low_memory=False)


def c2st(real: pandas.DataFrame, decoded: pandas.DataFrame, seed: int, *, copies: bool = False) -> float:
    """Return the AUC of a classifier between equally many real and decoded rows, or between two copies of rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    labels = np.repeat([0, 1], len(real))
    x = features(pandas.concat([real, decoded], ignore_index=True))
    draw = np.random.default_rng(seed + 1000)
    train = np.tile(draw.random(len(real)) < 0.8, 2) if copies else draw.random(len(x)) < 0.5
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


def measure_readers() -> None:
    """Print the processor time of three readers: this package's, pandas' and pyarrow's."""
    import pyarrow
    import pyarrow.csv

    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        write_large(path, _ROWS, _COLUMNS)
        names = path.open().readline().strip().split(",")
        types = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
        )
        readers = {
            "tauleap": lambda: read_delimited(path),
            "pandas, cells as texts": lambda: pandas.read_csv(path, dtype=str),
            "pyarrow, cells as dictionaries": lambda: pyarrow.csv.read_csv(path, convert_options=types),
        }
        for name, reader in readers.items():
            start = time.process_time()
            reader()
            print(
                f"reading {_ROWS:,} rows x {_COLUMNS} columns, {name}: {time.process_time() - start:.2f} s", flush=True
            )


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
