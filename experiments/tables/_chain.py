"""A chain of gradient-boosted trees: each column given those before it, in the states of a model of the table."""

from __future__ import annotations

import lightgbm
import numpy as np

_LEAVES, _MANY_STATES = (4, 8, 16), 40
"""Numbers of leaves, of which the best on held-out training rows is used for a column; one of more states has the
second, because a tree per state takes long."""
_MIXED = (0.0, 0.003, 0.01, 0.03)
"""Weights of the marginal distribution, which trees lack for rare states; the best one is used for each column."""
_ROUNDS, _PATIENCE, _RATE = 400, 15, 0.05


def chain_bits(
    train: np.ndarray, test: np.ndarray, sizes: list[int], ordered: list[bool], seed: int = 0
) -> tuple[np.ndarray, list[str]]:
    """Return -log2 p of every cell of the test rows, (rows, columns), and a line per column about its choices.

    The number of rounds, the leaves and the weight of the marginal are chosen on a tenth of the training rows.

    Args:
        train: States of the training rows, (rows, columns).
        test: States of the test rows.
        sizes: The number of states of each column.
        ordered: Whether the states of each column are ordered numbers.
        seed: The seed of the held-out training rows and of the trees. Default: 0.
    """
    order = np.random.default_rng(seed).permutation(len(train))
    held, rest = train[order[: len(train) // 10]], train[order[len(train) // 10 :]]
    bits, report = np.zeros(test.shape), []
    for column, size in enumerate(sizes):
        counts = np.bincount(rest[:, column], minlength=size) + 0.5
        marginal = counts / counts.sum()
        if column == 0:
            bits[:, 0] = -np.log2(marginal[test[:, 0]])
            continue
        categories = [place for place in range(column) if not ordered[place]]
        loss, model, leaves = min(
            (_fitted(rest, held, column, size, number, categories, seed) for number in _leaves_of(size)),
            key=lambda found: found[0],
        )
        probs = _probabilities(model, held, column, size)
        weight = min(_MIXED, key=lambda share: _mean_bits(_mixture(probs, marginal, share), held[:, column]))
        own = _mixture(_probabilities(model, test, column, size), marginal, weight)
        bits[:, column] = -np.log2(own[np.arange(len(test)), test[:, column]])
        report.append(
            f"column {column}: {leaves} leaves, {model.best_iteration} rounds, marginal {weight:g}, {loss:.4f}"
        )
    return bits, report


def _leaves_of(size: int) -> tuple[int, ...]:
    return _LEAVES if size <= _MANY_STATES else _LEAVES[1:2]


def _fitted(
    rest: np.ndarray, held: np.ndarray, column: int, size: int, leaves: int, categories: list[int], seed: int
) -> tuple[float, lightgbm.Booster, int]:
    data = lightgbm.Dataset(rest[:, :column], rest[:, column], categorical_feature=categories or "auto")
    settings = {
        "objective": "multiclass" if size > 2 else "binary",
        "num_leaves": leaves,
        "lambda_l2": 20.0 if size > _MANY_STATES else 0.0,  # Else the trees of rare states diverge after a few rounds.
        "learning_rate": _RATE if size <= 20 else 2 * _RATE,
        "min_data_in_leaf": 20,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
    } | ({"num_class": size} if size > 2 else {})
    model = lightgbm.train(
        settings,
        data,
        _ROUNDS,
        valid_sets=[lightgbm.Dataset(held[:, :column], held[:, column], reference=data)],
        callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
    )
    return next(iter(model.best_score["valid_0"].values())), model, leaves


def _probabilities(model: lightgbm.Booster, rows: np.ndarray, column: int, size: int) -> np.ndarray:
    found = np.asarray(model.predict(rows[:, :column], num_iteration=model.best_iteration))
    return np.stack([1 - found, found], 1) if size == 2 else found


def _mixture(probs: np.ndarray, marginal: np.ndarray, weight: float) -> np.ndarray:
    mixed = (1 - weight) * probs + weight * marginal
    return np.maximum(mixed, 1e-12)


def _mean_bits(probs: np.ndarray, states: np.ndarray) -> float:
    return float(-np.log2(probs[np.arange(len(states)), states]).mean())
