"""Measure how far ``log_prob`` is below log p, and how often its 95 % intervals contain log p.

    python diagnostics/log_prob_coverage.py [--replicates 2000] [--write]

Absorbing noise on three sites of three states, where log p of each of the 27 rows is computed from all six orders. The
networks are those of diagnostics/interval_coverage.py: an untrained one, whose probabilities along different orders
disagree, and a partially trained one. Results are stored in diagnostics/results/log_prob_coverage.json; ``--write``
writes the table to docs/questions.md.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import permutations
from pathlib import Path

import torch
from _page import table, write
from interval_coverage import PROCESSES, SEED, trained
from torch import Tensor

import tauleap as tl
from tauleap.evaluate import order_log_prob
from tauleap.evaluate.joint_space import joint_states
from tauleap.testing.laws import random_law

RESULTS = Path(__file__).with_name("results") / "log_prob_coverage.json"
SITES, STATES, ORDERS = 3, 3, (1, 2, 4, 16, 64)
_BLOCK = 100
"""Replicates of one call, so that the orders of all rows fit into memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="write the stored results to the page, and stop")
    arguments = parser.parse_args()
    if arguments.write:
        return write("questions.md", "log_prob", as_text(json.loads(RESULTS.read_text())))
    torch.set_num_threads(1)
    process = PROCESSES["absorbing"](STATES)
    law = random_law(process.data_states.expand(SITES, -1), SEED)
    found = {"replicates": arguments.replicates, "cases": {}}
    for name in ("untrained", "partially trained"):
        model = trained(process, law, name)
        for orders in ORDERS:
            found["cases"][f"{name}, {orders}"] = measured(model, orders, arguments.replicates)
            print(name, orders, found["cases"][f"{name}, {orders}"], flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


@torch.no_grad()
def exact_log_probs(model: tl.ReverseProcess, rows: Tensor) -> Tensor:
    """Return log p of each row: the mean of its probabilities along all orders of the sites."""
    along = []
    for order in permutations(range(rows.shape[1])):
        x = torch.full_like(rows, model.process.num_states - 1)
        total = torch.zeros(len(rows), dtype=torch.float64)
        for site in order:
            log_probs = model.posterior(x, 0.5).log_probs[:, site].double()
            total += log_probs.gather(1, rows[:, site : site + 1]).squeeze(1)
            x[:, site] = rows[:, site]
        along.append(total)
    return torch.stack(along).logsumexp(0) - math.log(len(along))


def measured(model: tl.ReverseProcess, orders: int, replicates: int) -> dict[str, float | None]:
    """Return the lowest, mean and highest coverage over the rows, and the mean of log p minus the estimate."""
    rows = joint_states(STATES, SITES)
    truth = exact_log_probs(model, rows)
    generator = torch.Generator().manual_seed(SEED)
    gaps, inside = [], []
    for _ in range(replicates // _BLOCK):
        found = order_log_prob(model, rows.repeat(_BLOCK, 1), orders=orders, generator=generator)
        expected = truth.repeat(_BLOCK)
        low, high = found.interval()
        inside.append(((low <= expected) & (expected <= high)).reshape(_BLOCK, -1))
        gaps.append((expected - found.value).reshape(_BLOCK, -1))
    gap = torch.cat(gaps).mean(1)
    each = torch.cat(inside).double().mean(0)
    coverage = (None, None, None) if orders == 1 else (float(each.min()), float(each.mean()), float(each.max()))
    return {
        "gap": round(float(gap.mean()), 5),
        "gap_stderr": round(float(gap.std()) / math.sqrt(len(gap)), 5),
        **{
            name: None if value is None else round(value, 4)
            for name, value in zip(("lowest", "mean", "highest"), coverage, strict=True)
        },
    }


def as_text(found: dict) -> str:
    """Return gaps and coverages as a table."""
    lines = []
    for case, result in found["cases"].items():
        name, orders = case.split(", ")
        covered = (
            ["-"] * 3 if result["mean"] is None else [f"{result[key]:.1%}" for key in ("lowest", "mean", "highest")]
        )
        lines.append([name, orders, f"{result['gap']:.4f} ± {result['gap_stderr']:.4f}", *covered])
    head = ["network", "orders", "log p minus the estimate, nats", "lowest coverage", "mean", "highest"]
    return (
        table(head, lines)
        + f"\n\n*`python diagnostics/log_prob_coverage.py`: absorbing noise, {SITES} sites of {STATES} "
        f"states, {found['replicates']:,} replicates for each of the {STATES**SITES} rows, seed {SEED}. Lowest and "
        "highest are over rows; the mean difference for one order is that of the bound of bits/dim.*"
    )


if __name__ == "__main__":
    main()
