"""Evaluate a model of a table with a known distribution: likelihood, marginals, pairs of columns, imputation.

    python experiments/own_data/table.py [--minutes 2 | --steps 2600] [--write]

The table is that of examples/data/make_some.py: columns of 2, 5, 40, 5 and 2 states, 20,000 training rows with one cell
in twenty missing, and 4,000 test rows. ``--write`` writes the results to docs/own_data.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from pathlib import Path

import torch
from torch import Tensor

import tauleap as tl

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "examples" / "data"), str(ROOT / "diagnostics")]

import make_some  # noqa: E402
from _page import table, write  # noqa: E402

ROWS, TEST, SAMPLES, HIDDEN = 20_000, 4000, 10_000, 0.3
NAMES = list(make_some.COLUMNS)
SIZES = torch.tensor([len(categories) for categories in make_some.COLUMNS.values()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    seed = arguments.seed
    law = torch.from_numpy(make_some.law())
    rows, test = (torch.from_numpy(make_some.orders(n, seed=100 + seed + k)) for k, n in enumerate((ROWS, TEST)))
    missing = torch.from_numpy(make_some.empty(tuple(rows.shape), seed=100 + seed))
    states = int(SIZES.max())
    data = tl.data.Dataset(rows.masked_fill(missing, 0), states, missing=missing, sizes=SIZES)
    held_out = tl.data.Dataset(test, states, sizes=SIZES)
    minutes = arguments.minutes if arguments.steps is None else None
    budget = f"--minutes {minutes:g}" if minutes is not None else f"--steps {arguments.steps}"
    model = tl.fit(data, minutes=minutes, steps=arguments.steps, seed=seed, validation=held_out)

    exact = -log2_law(law, test) / len(NAMES)
    found, baseline = model.about["bits_per_dim"], model.about["independent_bits_per_dim"]
    lines = [
        f"{ROWS:,} rows, {float(missing.double().mean()):.1%} of the cells missing; {model.about['weights']:,} "
        f"weights, {model.about['step']:,} steps in {model.about['seconds'] / 60:.1f} minutes, including evaluation. "
        f"{model.about['choice'][0]}; {model.about['choice'][1]}.",
        "",
        table(
            ["bits/dim of the first held-out rows", "value", "standard error", "rows"],
            [
                ["the model's bound", f"{found['value']:.4f}", f"{found['stderr']:.4f}", f"{found['n']:,}"],
                [
                    "the exact distribution, same rows",
                    f"{float(exact[: found['n']].mean()):.4f}",
                    "",
                    f"{found['n']:,}",
                ],
                ["independent columns", f"{baseline['value']:.4f}", f"{baseline['stderr']:.4f}", f"{baseline['n']:,}"],
            ],
        ),
        "",
        *pairs(model, law, rows[~missing.any(1)], seed),
        "",
        *imputed(model, law, test, seed),
        "",
        f"*`python experiments/own_data/table.py {budget} --seed {seed} --write`*",
    ]
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        write("own_data.md", "table", text)


def log2_law(law: Tensor, x: Tensor) -> Tensor:
    return law[tuple(x.T)].log2()


def pairs(model: tl.Model, law: Tensor, train: Tensor, seed: int) -> list[str]:
    """Return the total variation of every marginal and pair, and that of as many exact samples."""
    samples = model.sample(SAMPLES, steps=100, seed=seed, states=True)
    generator = torch.Generator().manual_seed(seed)
    draws = [exact_draws(law, generator) for _ in range(20)]
    rows = []
    for number in (1, 2):
        for columns in itertools.combinations(range(len(NAMES)), number):
            ours = distance(samples, law, columns)
            theirs = torch.tensor([distance(draw, law, columns) for draw in draws])
            label = " x ".join(NAMES[column] for column in columns)
            numbers = (ours, theirs.mean(), theirs.std(), distance(train, law, columns))
            rows.append([label, *(f"{number:.4f}" for number in numbers), f"{ours - theirs.mean():+.4f}"])
    worst = max(float(row[-1]) for row in rows)
    return [
        f"Total variation between {SAMPLES:,} samples (`model.sample({SAMPLES})`, 100 steps) and the exact "
        "distribution, and "
        f"that of as many exact samples (mean and standard deviation of {len(draws)} sets). The largest bias is "
        f"{worst:.4f}. The column training rows has the distance of the {len(train):,} training rows without missing "
        "values.",
        "",
        table(["columns", "samples", "exact samples", "deviation", "training rows", "bias"], rows),
    ]


def exact_draws(law: Tensor, generator: torch.Generator) -> Tensor:
    cells = torch.multinomial(law.flatten(), SAMPLES, replacement=True, generator=generator)
    return torch.stack(torch.unravel_index(cells, law.shape), dim=1)


def distance(x: Tensor, law: Tensor, columns: tuple[int, ...]) -> float:
    rest = [d for d in range(law.ndim) if d not in columns]
    marginal = law.sum(rest)
    place = torch.zeros(len(x), dtype=torch.int64)
    for column in columns:
        place = place * law.shape[column] + x[:, column]
    counts = torch.bincount(place, minlength=marginal.numel()).double() / len(x)
    return 0.5 * float((counts - marginal.flatten()).abs().sum())


def imputed(model: tl.Model, law: Tensor, test: Tensor, seed: int) -> list[str]:
    """Return bits per hidden cell: the model's bound given the observed cells, the exact conditional, the marginals."""
    hidden = torch.rand(test.shape, generator=torch.Generator().manual_seed(seed)) < HIDDEN
    partial = hidden.any(1) & ~hidden.all(1)
    x, hidden = test[partial], hidden[partial]
    number = hidden.sum(1)
    bound = model.bits_per_dim(x, ~hidden, samples=16, seed=seed)
    exact, independent = torch.zeros(len(x), dtype=torch.float64), torch.zeros(len(x), dtype=torch.float64)
    for pattern in hidden.unique(dim=0):
        chosen = (hidden == pattern).all(1)
        columns = pattern.nonzero().flatten().tolist()
        known = law.sum(columns, keepdim=True).expand(law.shape)
        exact[chosen] = log2_law(known, x[chosen]) - log2_law(law, x[chosen])
        for column in columns:
            marginal = law.sum([d for d in range(law.ndim) if d != column])
            independent[chosen] -= marginal[x[chosen, column]].log2()
    truth, marginal = float((exact / number).mean()), float((independent / number).mean())
    stderr = float((exact / number).std()) / math.sqrt(len(x))
    rows = [
        ["the model, given the observed cells", f"{bound.value:.4f}", f"{bound.stderr:.4f}"],
        ["the exact conditional distribution, same cells", f"{truth:.4f}", f"{stderr:.4f}"],
        ["the exact column marginals, same cells", f"{marginal:.4f}", ""],
    ]
    return [
        f"Imputation: {int(number.sum()):,} cells of {len(x):,} held-out rows were hidden, each with probability "
        f"{HIDDEN}. The model beats the marginals by {marginal - bound.value:.3f} bits per cell and is within "
        f"{bound.value - truth:.3f} of the exact conditional distribution.",
        "",
        table(["bits per hidden cell", "value", "standard error"], rows),
    ]


if __name__ == "__main__":
    main()
