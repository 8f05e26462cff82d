"""Compare the paper's objectives with the complete bound on the toy, with equal numbers of steps.

    python experiments/toy/objectives.py [--steps 3000] [--paper-steps 30000] [--write]

All rows except the last have the same network, data, noise, seed, batch size and learning rate; the last is the paper's
own network and training. ``--write`` writes docs/experiments/toy.md. It takes about eight minutes on one core.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from dataclasses import replace

import torch
from _common import StoredResults, table, write
from rich.console import Console

from tauleap import recipes
from tauleap.data import tau_pmf, tau_points
from tauleap.evaluate import Estimate, bits_per_dim, hellinger_of_laws, pushforward
from tauleap.objective import CompleteElbo, LogUniformTimes, Objective, PaperElbo
from tauleap.pretrained import load
from tauleap.recipes.toy import exact_reverse
from tauleap.sampling import TauLeaping, Uniformization, uniform_grid
from tauleap.training import Recipe, Run, train

ROWS = 4000
OBJECTIVES: dict[str, Objective] = {
    "L_CT, two passes": PaperElbo(passes=2),
    "L_eCT, one pass": PaperElbo(passes=1),
    "complete bound": CompleteElbo(),
    "complete bound, times uniform in log t": CompleteElbo(times=LogUniformTimes()),
    "the recipe: with reconstruction": CompleteElbo(reconstruction=True, times=LogUniformTimes()),
}


def measured(recipe: Recipe, steps: int) -> dict[str, float]:
    data, _ = recipe.data()
    settings = replace(recipe.settings, steps=steps, sample_every=None)
    if settings.decay is not None:
        settings = replace(settings, decay=steps)
    recipe = replace(recipe, settings=settings, data=lambda: (data, None), picture=None)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        checkpoint = train(
            recipe, Run(folder, tensorboard=False, keep=1), console=Console(file=io.StringIO())
        ).checkpoint
        seconds = time.process_time() - began
        model = load(checkpoint)
    points = tau_points(ROWS, generator=torch.Generator().manual_seed(1))
    each = []
    for reverse in (model.reverse, exact_reverse()):
        generator = torch.Generator().manual_seed(0)
        each.append(bits_per_dim(reverse, points, samples=16, per_datapoint=True, generator=generator).value)
    more = Estimate.of_mean(each[0] - each[1])
    reverse, law = model.reverse.double(), tau_pmf()
    with torch.no_grad():
        leap_law = pushforward.sample_law(TauLeaping(), reverse, 2, uniform_grid(249), accuracy=pushforward.COARSE)
        simulation_law = pushforward.sample_law(Uniformization(), reverse, 2, [1.0, 0.01], accuracy=pushforward.COARSE)
    return {
        "steps": steps,
        "seconds": seconds,
        "tau_leaping_250": hellinger_of_laws(leap_law, law),
        "exact_simulation": hellinger_of_laws(simulation_law, law),
        "bits": float(each[0].mean()),
        "more_bits": more.value,
        "more_bits_stderr": more.stderr,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--paper-steps", type=int, default=30_000)
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    stored, rows = StoredResults("objectives.json"), []
    runs = {f"{name}: {options.steps}": (objective, options.steps) for name, objective in OBJECTIVES.items()}
    for key, (objective, steps) in runs.items():
        found = stored.get(key, lambda o=objective, n=steps: measured(replace(recipes.toy(), objective=o), n))
        rows.append(_row(key.rpartition(":")[0], found))
    paper = stored.get(f"paper: {options.paper_steps}", lambda: measured(recipes.toy_paper(), options.paper_steps))
    rows.append(_row("the paper's own network and training", paper))
    head = [
        "objective",
        "steps",
        "processor s",
        "tau-leaping, 250",
        "exact simulation",
        "bits/dim beyond the exact denoiser",
    ]
    text = table(head, rows) + (
        f"\n\n*`python experiments/toy/objectives.py --steps {options.steps} --paper-steps {options.paper_steps} "
        f"--write`: seed 0; Hellinger distances of exact distributions; bits/dim on {ROWS:,} points, same noise "
        "for both denoisers. The last row is the recipe `toy-paper`, of which the paper makes a million steps.*"
    )
    print(text)
    if options.write:
        write("experiments/toy.md", "objectives", text)


def _row(name: str, found: dict[str, float]) -> list[str]:
    return [
        name,
        f"{found['steps']:,}",
        f"{found['seconds']:.0f}",
        f"{found['tau_leaping_250']:.4f}",
        f"{found['exact_simulation']:.4f}",
        f"{found['more_bits']:.4f} ± {found['more_bits_stderr']:.4f}",
    ]


if __name__ == "__main__":
    main()
