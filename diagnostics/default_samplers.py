"""Compare ancestral steps on every grid, and first hitting, on eight models: the measurement behind the default.

    python diagnostics/default_samplers.py [--only toy ...] [--write]

Each candidate has 16, 64 and 256 evaluations per sample, the final one among them, from t = 1 to 0.001 with
``final="sample"``. The standard errors are bootstraps over the samples. Results are stored in
diagnostics/results/default_samplers.json, and ``--write`` writes the tables to docs/samplers.md; ``--only`` without a
name computes nothing again. It takes about 30 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from _default_tasks import SEED, Error, Task, digits_task, music_task, table_task, text_task
from _page import table, write
from torch import Tensor

import tauleap as tl
from tauleap.evaluate import hellinger_of_laws, pushforward
from tauleap.noise import Absorbing
from tauleap.sampling import Ancestral, FirstHitting, Sampler, geometric_grid, noise_grid, uniform_grid

RESULTS = Path(__file__).with_name("results") / "default_samplers.json"
BUDGETS = (16, 64, 256)
END = 1e-3
BOOTSTRAPS = 100
EXACT = "FirstHitting()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.only:
        began = time.process_time()
        found[name] = TASKS[name]()
        found[name]["seconds"] = round(time.process_time() - began)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(name, json.dumps(found[name]), flush=True)
    text = as_text({name: found[name] for name in TASKS if name in found})
    print(text)
    if arguments.write:
        write("samplers.md", "defaults", text)


def candidates(process: tl.noise.ForwardProcess) -> dict[str, tuple[Sampler, Callable[[int], Tensor]]]:
    """Return samplers with the grids of the package, by their names in the table."""
    grids: dict[str, Callable[[int], Tensor]] = {
        "uniform": lambda steps: uniform_grid(steps, end=END),
        "geometric": lambda steps: geometric_grid(steps, end=END),
        "noise": lambda steps: noise_grid(process.schedule, steps, end=END),
    }
    samplers = [Ancestral(), Ancestral(look_ahead=0.5)]
    return {f"{sampler}, {name}": (sampler, grid) for sampler in samplers for name, grid in grids.items()}


def measured(task: Task) -> dict[str, object]:
    """Return errors, standard errors and numbers of samples of every candidate at every number of evaluations."""
    process, out = task.model.process, {name: {} for name in task.errors}
    sites = math.prod(task.model.shape or (1,))
    for budget, number in task.samples.items():
        row: dict[str, tuple[Sampler, Tensor | None]] = {
            name: (sampler, grid(budget - 1)) for name, (sampler, grid) in candidates(process).items()
        }
        if isinstance(process, Absorbing) and sites <= budget:
            row[EXACT] = (FirstHitting(), None)
        for name, (sampler, grid) in row.items():
            given = task.condition(number)
            x = task.model.sample(number, sampler=sampler, grid=grid, seed=SEED, condition=given, states=True)
            for measure, error in task.errors.items():
                cell = [round(error(x), 5), round(spread(error, x, task.labels or 1), 5), number]
                out[measure].setdefault(str(budget), {})[name] = cell
    return {"absorbing": isinstance(process, Absorbing), "errors": out}


def spread(error: Error, x: Tensor, classes: int) -> float:
    """Return the standard deviation of an error over bootstrap samples, drawn class by class."""
    generator = torch.Generator().manual_seed(SEED)
    own = torch.arange(len(x)) % classes
    draws = [
        torch.randint(len(x) // classes, (len(x),), generator=generator) * classes + own for _ in range(BOOTSTRAPS)
    ]
    return float(np.std([error(x[draw]) for draw in draws]))


def toy() -> dict[str, object]:
    """Return the exact errors of the shipped toy (pushforward)."""
    model, law = tl.load("toy"), tl.data.tau_pmf()
    model.reverse.double()
    errors: dict[str, dict[str, list[float]]] = {}
    for budget in BUDGETS:
        errors[str(budget)] = {}
        for name, (sampler, grid) in candidates(model.process).items():
            with torch.no_grad():
                made = pushforward.sample_law(sampler, model.reverse, 2, grid(budget - 1), "sample")
            errors[str(budget)][name] = [round(float(hellinger_of_laws(made, law)), 5), 0.0, 0]
    return {"absorbing": False, "errors": {"Hellinger distance to the law of the data, nothing is drawn": errors}}


TASKS: dict[str, Callable[[], dict[str, object]]] = {
    "toy": toy,
    "table, marginal noise": lambda: measured(table_task("rank-one")),
    "text, uniform noise": lambda: measured(text_task("uniform")),
    "mnist-small": lambda: measured(digits_task()),
    "table, absorbing noise": lambda: measured(table_task("absorbing")),
    "text, absorbing noise": lambda: measured(text_task("absorbing")),
    "long text, absorbing noise": lambda: measured(text_task("absorbing", 128)),
    "music-small": lambda: measured(music_task()),
}


def as_text(found: dict[str, dict]) -> str:
    """Return the mean errors of each kind of noise, then one row per model, measure and number of evaluations."""
    rows, kinds, notes = [], {}, []
    for task, each in found.items():
        for number, (measure, errors) in enumerate(each["errors"].items()):
            name = task if number == 0 else f"{task} ({number + 1})"
            notes.append(f"{name}: {measure}")
            for budget, row in errors.items():
                rows.append([name, budget, row])
                if EXACT not in row:  # it is selected there, whatever ancestral steps do
                    kinds.setdefault((each["absorbing"], budget), []).append(row)
    means = []
    for (absorbing, budget), held in sorted(kinds.items(), key=lambda item: (item[0][0], int(item[0][1]))):
        kind = "mean, absorbing noise, more sites than steps" if absorbing else "mean, other noise"
        means.append([kind, budget, {name: mean([row[name] for row in held]) for name in held[0]}])
    names = list(dict.fromkeys(name for _, _, row in rows for name in row))
    heads = [f"`{name}`" if name == EXACT else "`{}`, {}".format(*name.rsplit(", ", 1)) for name in names]
    lines = [[name, budget, *cells(row, names)] for name, budget, row in (*means, *rows)]
    return (
        table(["model", "evaluations", *heads], lines)
        + f"\n\n*`python diagnostics/default_samplers.py --write`, seed {SEED}; ± is one standard error, bold the "
        + f"smallest of ancestral steps. Errors: {'; '.join(notes)}.*"
    )


def mean(held: list[list[float]]) -> list[float]:
    """Return the mean of errors and its standard error."""
    return [float(np.mean([e[0] for e in held])), float(np.sqrt(np.sum([e[1] ** 2 for e in held]))) / len(held)]


def cells(row: dict[str, list[float]], names: list[str]) -> list[str]:
    """Return the cells of a row of the table, the smallest error of ancestral steps in bold."""
    best = min(value[0] for name, value in row.items() if name != EXACT)
    out = []
    for name in names:
        value, error = row.get(name, [math.nan, 0.0])[:2]
        shown = f"**{value:.4f}**" if name != EXACT and value == best else f"{value:.4f}"
        out.append("" if math.isnan(value) else shown + (f" ± {error:.4f}" if error else ""))
    return out


if __name__ == "__main__":
    main()
