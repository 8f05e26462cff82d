"""Figure 3 of the paper: distance to the data's law against evaluations, and marginals on the way.

    python experiments/toy/figure.py [--model toy] [--draws 10000] [--seeds 3] [--write]

Laws are pushed exactly through every sampler that has a one-step kernel; beside them are draws, whose histogram has a
distance of its own that falls with their number. Results are kept in experiments/toy/results/, so that a run which was
stopped goes on; remove a file there to work it out again. ``--write`` makes docs/figures/toy.png and fills
docs/experiments/toy.md. About 40 minutes of one core.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from _common import END, FIGURES, Kept, grid_within, reverse_of, table, write

from tauleap.cli.toy_figure import Curve, Way, draw_figure
from tauleap.data import tau_pmf, tau_points
from tauleap.evaluate import hellinger, hellinger_of_laws, pushforward
from tauleap.evaluate.plots import save_png
from tauleap.sampling import (
    Ancestral,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    sample,
    uniform_grid,
)

WORK = (10, 18, 32, 56, 100, 178, 316, 562, 1000)
DRAWN = (10, 32, 100, 250, 1000)
WAYS = {"0.004": 250, "0.1": 10}
SHOWN = (1.0, 0.6, 0.3, 0.15, 0.05)
CORRECTED = WithCorrector(TauLeaping(), steps=1, scale=0.5, start=0.2)
DATA = tau_pmf()


def pushed_distance(sampler: Sampler, model: str | None, budget: int) -> float:
    reverse = reverse_of(model)
    grid = [1.0, END] if isinstance(sampler, Uniformization) else grid_within(sampler, uniform_grid, budget)
    with torch.no_grad():
        law = pushforward.sample_law(sampler, reverse, 2, grid, accuracy=pushforward.COARSE)
    return hellinger_of_laws(law / law.sum(), DATA)


def drawn_distance(sampler: Sampler, model: str, budget: int, draws: int, seed: int) -> dict[str, float]:
    from tauleap.pretrained import load

    grid = uniform_grid(budget - 1) if isinstance(sampler, TauLeaping) else [1.0, END]
    generator = torch.Generator().manual_seed(seed)
    got = sample(load(model).reverse, sampler, (draws, 2), grid=grid, batch_size=2000, generator=generator)
    return {"hellinger": hellinger(got.x0, DATA).value, "evaluations": got.info.evaluations}


def way(model: str, budget: int) -> list[torch.Tensor]:
    reverse = reverse_of(model)
    with torch.no_grad():
        law, kept = pushforward.laws_at(
            TauLeaping(), reverse, pushforward.prior(reverse, 2), uniform_grid(budget - 1), SHOWN
        )
    return [*kept, pushforward.apply_mode(reverse, law, END)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="make the figure and fill the page")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error("--seeds must be at least 2, for an error over seeds")
    torch.set_num_threads(1)

    laws = Kept("laws.json", options.model)
    budgets: dict[str, tuple[Sampler, tuple[int, ...]]] = {
        "tau-leaping": (TauLeaping(), WORK),
        "ancestral": (Ancestral(), WORK),
        "tau-leaping with correctors": (CORRECTED, WORK[1:]),
        "trapezoidal": (Trapezoidal(), WORK[:5]),
        "exact simulation": (Uniformization(), (0,)),
    }
    found: dict[tuple[str, str], list[float]] = {}
    for who, model in (("trained", options.model), ("exact denoiser", None)):
        for name, (sampler, numbers) in budgets.items():
            found[name, who] = [
                laws.get(f"{who}: {name}, {n}", lambda s=sampler, m=model, n=n: pushed_distance(s, m, n))
                for n in numbers
            ]
    draws = Kept("draws.json", options.model)
    points: dict[str, list[list[dict[str, float]]]] = {}
    for name, sampler, numbers in (
        ("tau-leaping", TauLeaping(), DRAWN),
        ("Uniformization", Uniformization(), (0,)),
        ("NextReaction, step 0.001", NextReaction(step=0.001), (0,)),
    ):
        points[name] = [
            [
                draws.get(
                    f"{name}, {n}: {options.draws} draws, seed {seed}",
                    lambda s=sampler, n=n, seed=seed: drawn_distance(s, options.model, n, options.draws, seed),
                )
                for seed in range(options.seeds)
            ]
            for n in numbers
        ]
    own = [
        hellinger(tau_points(options.draws, generator=torch.Generator().manual_seed(seed)), DATA).value
        for seed in range(20)
    ]
    shown = [Way(f"tau = {tau}", [*SHOWN, 0.0], way(options.model, n)) for tau, n in WAYS.items()]
    text = tables(budgets, found, points, own, options)
    print(text)
    if options.write:
        left = curves(budgets, found, points, options.draws)
        save_png(draw_figure(left, levels(found), shown), FIGURES / "toy.png", colours=128)
        write("experiments/toy.md", "figure", text)


def curves(budgets, found, points, draws: int) -> list[Curve]:
    out = []
    for colour, name in enumerate(name for name in budgets if name != "exact simulation"):
        numbers = budgets[name][1]
        out.append(Curve(name, numbers, found[name, "trained"], colour=colour))
        if name == "tau-leaping":
            out.append(Curve("the same, exact denoiser", numbers, found[name, "exact denoiser"], reference=True))
    values, errors = zip(*(spread(each) for each in points["tau-leaping"]), strict=True)
    out.append(Curve(f"tau-leaping, {draws:,} draws", DRAWN, values, errors=errors))
    for colour, name in ((4, "Uniformization"), (5, "NextReaction, step 0.001")):
        value, error = spread(points[name][0])
        work = statistics.mean(run["evaluations"] for run in points[name][0])
        out.append(Curve(f"{name}, the same", [work], [value], errors=[error], colour=colour))
    return out


def levels(found) -> dict[str, float]:
    return {
        "exact simulation": found["exact simulation", "trained"][0],
        "the same, exact denoiser": found["exact simulation", "exact denoiser"][0],
    }


def spread(runs: list[dict[str, float]]) -> tuple[float, float]:
    """Mean and its standard error over seeds."""
    values = [run["hellinger"] for run in runs]
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5


def tables(budgets, found, points, own, options) -> str:
    rows = []
    for name, (_, numbers) in budgets.items():
        for who in ("trained", "exact denoiser"):
            by_number = dict(zip(numbers, found[name, who], strict=True))
            cells = [f"{by_number[n]:.4f}" if n in by_number else "" for n in WORK]
            if name == "exact simulation":
                cells = [*[""] * (len(WORK) - 1), f"{found[name, who][0]:.4f}"]
            rows.append([f"{name}, {who}", *cells])
    drawn = []
    for name, runs in points.items():
        for each in runs:
            value, error = spread(each)
            work = statistics.mean(run["evaluations"] for run in each)
            drawn.append([name, f"{work:.0f}", f"{value:.4f}", f"{error:.4f}"])
    drawn.append(["the data's own law", "", f"{statistics.mean(own):.4f}", f"{statistics.stdev(own) / 20**0.5:.4f}"])
    ratio = found["tau-leaping", "trained"][-1] / found["tau-leaping", "exact denoiser"][-1]
    to_simulation = found["tau-leaping", "trained"][-1] / found["exact simulation", "trained"][0]
    return "\n\n".join(
        [
            "![Hellinger distance against evaluations; marginals on the way from noise to data](../figures/toy.png)",
            table(["law pushed exactly: evaluations", *map(str, WORK)], rows),
            "*Exact simulation has no grid: its row has one number, whatever the evaluations.*",
            table(["drawn", "evaluations", "Hellinger distance", "standard error"], drawn),
            f"Trained over exact denoiser at 1,000 evaluations of tau-leaping: {ratio:.3f}. Tau-leaping at 1,000 "
            f"evaluations over exact simulation, both trained: {to_simulation:.3f}.",
            f"*`python experiments/toy/figure.py --model {options.model} --draws {options.draws} --seeds "
            f"{options.seeds} --write`: from the prior to t = {END}, then the most probable x0; Hellinger distance "
            f"sqrt(1 - sum sqrt(p q)). Drawn: {options.draws:,} points for each of {options.seeds} seeds, the error "
            "is that over seeds; the data's own law over 20 seeds. Correctors: one a step for t < 0.2, half as long.*",
        ]
    )


if __name__ == "__main__":
    main()
