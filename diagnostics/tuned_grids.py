"""Errors of tuned steps, predicted from rows and exact by enumeration, against those of other grids.

Prints the tables, and with --write puts them into docs/samplers.md. About a minute.
"""

from __future__ import annotations

import argparse

import torch
from _page import table, write

import tauleap as tl
from tauleap.sampling import TimeTuning, UnmaskingTuning, geometric_grid, uniform_grid
from tauleap.testing.cases import correlated, draws
from tauleap.testing.laws import random_law
from tauleap.testing.steps import mean_entropies, step_errors

STEPS = (4, 8, 16, 32)
ROWS = 2000
LAST = 1e-3


def times() -> str:
    """Return the table of noise without masks: two sites of three states."""
    rows = []
    for name in ("uniform", "birth/death", "Gaussian"):
        reverse, law = correlated(name, 2)
        data = draws(law, ROWS, torch.Generator().manual_seed(0))
        tuning = tl.tune(reverse, data, batch_size=ROWS, seconds=1e6, generator=torch.Generator().manual_seed(1))
        assert isinstance(tuning, TimeTuning)
        assert tuning.relative_stderr is not None
        for steps in STEPS:
            grids = {
                "uniform": uniform_grid(steps, end=0.0).tolist(),
                "geometric": [*geometric_grid(steps - 1, end=LAST).tolist(), 0.0],
                "tuned": tuning.grid(steps),
            }
            exact = {key: float(step_errors(reverse, law, grid).sum()) for key, grid in grids.items()}
            predicted = tuning.error(steps)
            shown = f"{predicted:.4f} ± {predicted * tuning.relative_stderr:.4f}"
            rows.append([name, str(steps), *(f"{value:.4f}" for value in exact.values()), shown])
    return table(["noise", "steps", "uniform grid", "geometric grid", "tuned grid", "tuned, predicted"], rows)


def numbers() -> str:
    """Return the table of absorbing noise: seven sites of two states."""
    law = random_law(torch.ones(7, 2, dtype=torch.bool), seed=2)
    tuning = UnmaskingTuning(1, None, 7, tuple(range(7)), tuple(mean_entropies(law)))
    rows = []
    for steps, equal in ((2, (4, 3)), (3, (3, 2, 2)), (4, (2, 2, 2, 1))):
        best = tuning.numbers(steps)
        shown = [f"{list(plan)}: {tuning.error_of(plan):.4f}" for plan in (equal, best)]
        rows.append(["absorbing", str(steps), *shown])
    return table(["noise", "steps", "even numbers", "tuned numbers"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/samplers.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    command = (
        f"*`python diagnostics/tuned_grids.py --write`: the second table has seven dependent binary sites; predictions "
        f"of the first are from {ROWS:,} rows, seeds 0 and 1, with standard errors. The geometric grid has its last "
        f"step from t = {LAST:g} to 0.*"
    )
    text = "\n\n".join([times(), numbers(), command])
    print(text)
    if options.write:
        write("samplers.md", "tuned", text)


if __name__ == "__main__":
    main()
