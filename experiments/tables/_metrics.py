"""How well samples of a table agree with its rows: the measures of the papers on tables, and their floors."""

from __future__ import annotations

import math
import time
from typing import Any

import lightgbm
import numpy as np
import pandas
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from tauleap.data.table.columns import TableEncoder

_DISTANCE_ROWS = 5000
"""Samples whose nearest rows are found: the standard error of the fraction is .007."""


def features(frame: pandas.DataFrame, encoder: TableEncoder) -> pandas.DataFrame:
    """Return numbers as floats and other columns as categories."""
    types = {column.name: column.encoder.type for column in encoder.columns}
    return pandas.DataFrame(
        {name: frame[name].astype("float64" if types[name] == "number" else "category") for name in frame}
    )


def separation(real: pandas.DataFrame, other: pandas.DataFrame, encoder: TableEncoder, seed: int) -> float:
    """Return the cross-validated AUC of gradient boosting that separates real rows from equally many others (C2ST)."""
    rows = features(pandas.concat([real, other], ignore_index=True), encoder)
    labels = np.repeat([0, 1], [len(real), len(other)])
    scores = np.zeros(len(labels))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(rows, labels):
        model = lightgbm.LGBMClassifier(n_estimators=100, random_state=seed, n_jobs=1, verbose=-1)
        model.fit(rows.iloc[train], labels[train])
        scores[test] = model.predict_proba(rows.iloc[test])[:, 1]
    return float(roc_auc_score(labels, scores))


def income_auc(train: pandas.DataFrame, test: pandas.DataFrame, encoder: TableEncoder, seed: int) -> float:
    """Return the AUC on test rows of a classifier of income."""
    both = features(pandas.concat([train, test], ignore_index=True), encoder)
    x, y = both.drop(columns="income"), (both["income"] == ">50K").to_numpy()
    model = lightgbm.LGBMClassifier(n_estimators=150, random_state=seed, n_jobs=1, verbose=-1, subsample=0.8)
    model.set_params(subsample_freq=1, colsample_bytree=0.8)
    model.fit(x[: len(train)], y[: len(train)])
    return float(roc_auc_score(y[len(train) :], model.predict_proba(x[len(train) :])[:, 1]))


def shape_and_trend(real: pandas.DataFrame, other: pandas.DataFrame, encoder: TableEncoder) -> tuple[float, float]:
    """Return the errors, in percent, of SDMetrics' column shapes and column pair trends, without thresholds.

    The figures of the papers compare samples with the training rows.
    """
    from sdmetrics.reports.single_table._properties import ColumnPairTrends, ColumnShapes

    types = {column.name: column.encoder.type for column in encoder.columns}
    kinds = {name: {"sdtype": "numerical" if types[name] == "number" else "categorical"} for name in real}
    metadata = {"columns": kinds}
    tables = [table.reset_index(drop=True).copy() for table in (real, other)]
    for table in tables:
        for name, kind in kinds.items():
            # A missing category is a category, as in the published tables.
            table[name] = table[name].astype(float) if kind["sdtype"] == "numerical" else table[name].astype(str)
    shape, trend = ColumnShapes(), ColumnPairTrends()
    trend.real_correlation_threshold = trend.real_association_threshold = 0
    scores = [float(each.get_score(*tables, metadata)) for each in (shape, trend)]
    return 100 * (1 - scores[0]), 100 * (1 - scores[1])


def nearest_rows(
    samples: pandas.DataFrame, train: pandas.DataFrame, test: pandas.DataFrame, encoder: TableEncoder, seed: int
) -> float:
    """Return the fraction of samples that are nearer to a training row than to a test row (DCR share).

    Both sets have as many rows as the smaller one, so that .5 means no memorised rows. The distance of two rows is the
    sum over the columns: of numbers the difference over the range, of other columns whether they differ.
    """
    rng = np.random.default_rng(seed)
    number = min(len(train), len(test))
    chosen = [frame.iloc[rng.permutation(len(frame))[:number]] for frame in (train, test)]
    frames = [samples.iloc[rng.permutation(len(samples))[:_DISTANCE_ROWS]], *chosen]
    coded = _coded(frames, encoder)
    share = 0.0
    for part in np.array_split(coded[0], max(1, len(coded[0]) // 100)):
        near = [_distances(part, rows, frames[0], encoder).min(1) for rows in coded[1:]]
        share += float((near[0] < near[1]).sum() + 0.5 * (near[0] == near[1]).sum())
    return share / len(coded[0])


def copies(samples: pandas.DataFrame, train: pandas.DataFrame) -> float:
    """Return the fraction of samples that equal a training row in every column."""
    known = set(map(tuple, train.astype(str).to_numpy()))
    return float(np.mean([row in known for row in map(tuple, samples.astype(str).to_numpy())]))


def imputation(
    model: Any, test: pandas.DataFrame, encoder: TableEncoder, seed: int, *, rows: int = 4000, hidden: float = 0.2
) -> dict[str, float]:
    """Return accuracy and errors of one-pass predictions of hidden cells, beside those of modes and medians.

    Both are means over columns: of the fraction of categories that are right, and of the root mean squared error of
    numbers over their standard deviation.
    """
    rng = np.random.default_rng(seed)
    real = test.iloc[rng.permutation(len(test))[:rows]].reset_index(drop=True)
    hide = (rng.random(real.shape) < hidden) & real.notna().to_numpy()
    began = time.process_time()
    best = model.predict(real, ~hide)  # An empty cell would be a known one: missing is a state.
    seconds = time.process_time() - began
    types = {column.name: column.encoder.type for column in encoder.columns}
    found: dict[str, list[float]] = {name: [] for name in ("accuracy", "nrmse", "mode_accuracy", "median_nrmse")}
    for place, name in enumerate(real):
        here = hide[:, place]
        if types[name] != "number":
            truth = real[name][here].astype(str)
            found["accuracy"].append(float((best[name][here].astype(str) == truth).mean()))
            found["mode_accuracy"].append(float((test[name].astype(str).mode()[0] == truth).mean()))
            continue
        truth, scale = real[name][here].astype(float), float(test[name].astype(float).std())
        error = best[name][here].astype(float) - truth
        found["nrmse"].append(math.sqrt(float((error**2).mean())) / scale)
        found["median_nrmse"].append(
            math.sqrt(float(((truth - test[name].astype(float).median()) ** 2).mean())) / scale
        )
    return {name: float(np.mean(values)) for name, values in found.items()} | {"seconds": seconds}


def _coded(frames: list[pandas.DataFrame], encoder: TableEncoder) -> list[np.ndarray]:
    """Return the columns of several frames as floats: numbers over their range, categories as codes."""
    types = {column.name: column.encoder.type for column in encoder.columns}
    together = pandas.concat(frames, ignore_index=True)
    columns = []
    for name in together:
        if types[name] == "number":
            values = together[name].astype(float).to_numpy()
            columns.append((values - values.min()) / max(np.ptp(values), 1e-12))
        else:
            columns.append(together[name].astype(str).astype("category").cat.codes.to_numpy(dtype=float))
    stacked = np.stack(columns, 1).astype(np.float32)
    return np.split(stacked, np.cumsum([len(frame) for frame in frames])[:-1])


def _distances(part: np.ndarray, rows: np.ndarray, frame: pandas.DataFrame, encoder: TableEncoder) -> np.ndarray:
    types = {column.name: column.encoder.type for column in encoder.columns}
    total = np.zeros((len(part), len(rows)), dtype=np.float32)
    for place, name in enumerate(frame):
        a, b = part[:, place, None], rows[None, :, place]
        total += np.abs(a - b) if types[name] == "number" else a != b
    return total
