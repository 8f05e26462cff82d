"""Measure the encoders of tables without a model: encode and decode the rows of five tables.

    python experiments/tables/round_trip.py --data FOLDER [--bins 100] [--write]

FOLDER has adult_train.csv, adult_test.csv, default.csv, shoppers.csv, magic.csv and beijing.csv. Needs scikit-learn and
lightgbm. For each table the script prints

- C2ST: the AUC of gradient boosting that separates one half of the rows from the decoded rows of the other half. The
  halves have no row in common, because a decoded row beside its original in another fold makes the AUC smaller than .5.
  Mean of five seeds; .5 means that decoded rows cannot be recognised. A test with more power recognises Default: with
  all rows, and each decoded row in the fold of its original, the AUC is .55 (200 bins: .51). Inside their bins the
  bills of successive months are decoded independently, although they are almost equal in the data.
- whether categories come back exactly, and the seconds of one core to read and encode.

Then the AUC of a classifier of income that is trained on decoded rows of Adult, beside that of original rows, bits per
row for several numbers of bins, and the time for 100,000 rows of 30 columns.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from tauleap.data.table.columns import RawTable, TableEncoder, to_frame
from tauleap.data.table.csv import read_delimited

TABLES = ("adult_train", "default", "shoppers", "magic", "beijing")


def frame_of(encoder: TableEncoder, states: np.ndarray, missing: np.ndarray, seed: int) -> pandas.DataFrame:
    """Return decoded rows as a frame without IDs, with NaN where the original cell is missing."""
    frame = to_frame(encoder.decode(states, np.random.default_rng(seed)))
    chosen = [encoder.columns[place].name for place in encoder.sites]
    frame = frame[chosen].copy()
    for site, name in enumerate(chosen):
        frame[name] = frame[name].mask(pandas.Series(missing[:, site], index=frame.index))
    return frame


def features(frame: pandas.DataFrame, encoder: TableEncoder) -> pandas.DataFrame:
    """Return numbers as floats and other columns as categories."""
    types = {column.name: column.encoder.type for column in encoder.columns}
    return pandas.DataFrame(
        {name: frame[name].astype("float64" if types[name] == "number" else "category") for name in frame}
    )


def original(path: Path, encoder: TableEncoder) -> pandas.DataFrame:
    """Return the rows of the file as pandas reads them, in the columns of the encoder's sites."""
    frame = pandas.read_csv(path, na_values=["NA"], keep_default_na=False)
    return frame[[encoder.columns[place].name for place in encoder.sites]]


def c2st(real: pandas.DataFrame, decoded: pandas.DataFrame, encoder: TableEncoder, seed: int) -> float:
    """Return the cross-validated AUC of original rows of one half against decoded rows of the other half."""
    order = np.random.default_rng(seed).permutation(len(real))
    half = len(order) // 2
    rows = pandas.concat([real.iloc[order[:half]], decoded.iloc[order[half : 2 * half]]], ignore_index=True)
    rows, labels = features(rows, encoder), np.repeat([0, 1], half)
    scores = np.zeros(len(labels))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(rows, labels):
        model = lightgbm.LGBMClassifier(n_estimators=100, random_state=seed, n_jobs=1, verbose=-1)
        model.fit(rows.iloc[train], labels[train])
        scores[test] = model.predict_proba(rows.iloc[test])[:, 1]
    return float(roc_auc_score(labels, scores))


def table_result(path: Path, bins: int, seeds: int) -> dict[str, Any]:
    """Return the figures of one table."""
    start = time.process_time()
    raw = read_delimited(path)
    encoder = TableEncoder.fit(raw, bins=bins)
    encoded = encoder.encode(raw)
    seconds = time.process_time() - start
    real = original(path, encoder)
    scores, exact = [], True
    for seed in range(seeds):
        decoded = frame_of(encoder, encoded.states, encoded.missing, seed)
        scores.append(c2st(real, decoded, encoder, seed))
        for column in encoder.columns:
            if column.encoder.type in ("category", "boolean"):
                exact &= real[column.name].astype(object).equals(decoded[column.name].astype(object))
    return {
        "rows": raw.num_rows,
        "sites": len(encoder.sizes),
        "states": sum(encoder.sizes),
        "problems": len(raw.problems) + len(encoded.problems),
        "c2st": round(float(np.mean(scores)), 4),
        "c2st_stderr": round(float(np.std(scores, ddof=1) / math.sqrt(len(scores))), 4) if seeds > 1 else None,
        "categories_exact": bool(exact),
        "seconds": round(seconds, 2),
    }


def income_auc(train: pandas.DataFrame, test: pandas.DataFrame, encoder: TableEncoder, seed: int) -> float:
    """Return the AUC on test rows of a classifier of income."""
    both = features(pandas.concat([train, test], ignore_index=True), encoder)
    x, y = both.drop(columns="income"), (both["income"] == ">50K").to_numpy()
    model = lightgbm.LGBMClassifier(n_estimators=150, random_state=seed, n_jobs=1, verbose=-1, subsample=0.8)
    model.set_params(subsample_freq=1, colsample_bytree=0.8)
    model.fit(x[: len(train)], y[: len(train)])
    return float(roc_auc_score(y[len(train) :], model.predict_proba(x[len(train) :])[:, 1]))


def adult_result(folder: Path, bins: int, seeds: int) -> dict[str, Any]:
    """Return the AUC of classifiers trained on original and on decoded rows of Adult."""
    raw = read_delimited(folder / "adult_train.csv")
    encoder = TableEncoder.fit(raw, bins=bins)
    encoded = encoder.encode(raw)
    real, test = (original(folder / f"adult_{part}.csv", encoder) for part in ("train", "test"))
    decoded = [frame_of(encoder, encoded.states, encoded.missing, seed) for seed in range(seeds)]
    originals = [income_auc(real, test, encoder, seed) for seed in range(seeds)]
    after = [income_auc(frame, test, encoder, seed) for seed, frame in enumerate(decoded)]
    changed = {name: round(float((real[name] != decoded[0][name])[real[name].notna()].mean()), 4) for name in real}
    return {
        "original": round(float(np.mean(originals)), 5),
        "decoded": round(float(np.mean(after)), 5),
        # The figure says little about columns that come back exactly.
        "fraction_of_changed_cells": {name: fraction for name, fraction in changed.items() if fraction},
    }


def bits_result(folder: Path) -> dict[str, list[float]]:
    """Return bits per row of independent columns on the test rows of Adult: of the states, and of the values."""
    found = {}
    train, test = (read_delimited(folder / f"adult_{part}.csv") for part in ("train", "test"))
    for bins in (10, 30, 100, 300):
        encoder = TableEncoder.fit(train, bins=bins)
        found[str(bins)] = [round(value, 3) for value in _bits(encoder, train, test)]
    return found


def _bits(encoder: TableEncoder, train: RawTable, test: RawTable) -> tuple[float, float]:
    fitted, held_out = encoder.encode(train), encoder.encode(test)
    bits = np.zeros(held_out.states.shape)
    for site, size in enumerate(encoder.sizes):
        known = ~fitted.missing[:, site]
        counts = np.bincount(fitted.states[known, site], minlength=size) + 0.5
        bits[:, site] = -np.log2(counts / counts.sum())[held_out.states[:, site]]
    bits[held_out.missing] = 0
    values = bits - encoder.log_density(test) / math.log(2)
    return float(bits.sum(1).mean()), float(values.sum(1).mean())


def speed_result() -> dict[str, float]:
    """Return the seconds of one core for 100,000 rows of 30 columns: numbers, categories, dates and an ID."""
    rng, rows = np.random.default_rng(0), 100_000
    made: dict[str, Any] = {f"f{i}": np.round(rng.normal(size=rows) * 100, (2, 4, 9)[i % 3]) for i in range(12)}
    made |= {f"i{i}": rng.integers(0, (10, 100, 5000, 10**6)[i % 4], rows) for i in range(8)}
    made |= {f"c{i}": rng.integers(0, (3, 20, 400)[i % 3], rows).astype(str).astype(object) + "x" for i in range(7)}
    start = pandas.Timestamp("2020-01-01")
    made["moment"] = start + pandas.to_timedelta(rng.integers(0, 10**8, rows), unit="s")
    made["day"] = (start + pandas.to_timedelta(rng.integers(0, 2000, rows), unit="D")).strftime("%d/%m/%Y")
    made["id"] = np.arange(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.csv")
        pandas.DataFrame(made).to_csv(path, index=False)
        times = [time.process_time()]
        raw = read_delimited(path)
        times.append(time.process_time())
        encoder = TableEncoder.fit(raw)
        times.append(time.process_time())
        encoded = encoder.encode(raw)
        times.append(time.process_time())
        encoder.decode(encoded.states, rng)
        times.append(time.process_time())
    parts = dict(zip(("read", "fit", "encode", "decode"), np.diff(times).round(2).tolist(), strict=True))
    return parts | {"read_fit_encode": round(times[3] - times[0], 2)}


def main() -> None:
    """Print all figures as JSON, one line per result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the tables")
    parser.add_argument("--bins", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="save the figures in results/round_trip.json")
    given = parser.parse_args()
    figures: dict[str, Any] = {"bins": given.bins, "seeds": given.seeds}
    for name in TABLES:
        figures[name] = table_result(given.data / f"{name}.csv", given.bins, given.seeds)
        print(name, json.dumps(figures[name]), flush=True)
    figures["income AUC"] = adult_result(given.data, given.bins, given.seeds)
    figures["bits per row of states and of values, by bins"] = bits_result(given.data)
    figures["seconds for 100,000 rows of 30 columns"] = speed_result()
    for name in list(figures)[-3:]:
        print(name, json.dumps(figures[name]), flush=True)
    if given.write:
        path = Path(__file__).parent / "results" / "round_trip.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
