"""Draw Figure 3 of the paper: distance to the data distribution against evaluations, and marginals over time.

    python experiments/toy/figure.py [--model toy] [--draws 10000] [--seeds 3] [--write]

For every sampler with a one-step kernel the distribution of its samples is computed exactly (pushforward). In addition
there are samples, whose histogram has a positive distance that falls with their number. Results are stored in
experiments/toy/results/: run the same command again to resume, or delete a file there to compute it again. ``--write``
writes docs/figures/toy.png and docs/experiments/toy.md. It takes about 40 minutes on one core.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from _common import END, FIGURES, StoredResults, grid_within, reverse_of, table, write

from tauleap.cli.toy_figure import Curve, Trajectory, draw_figure
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

EVALUATIONS = (10, 18, 32, 56, 100, 178, 316, 562, 1000)
SAMPLED_EVALUATIONS = (10, 32, 100, 250, 1000)
STEPS_SHOWN = {"0.004": 250, "0.1": 10}
TIMES_SHOWN = (1.0, 0.6, 0.3, 0.15, 0.05)
WITH_CORRECTORS = WithCorrector(TauLeaping(), steps=1, scale=0.5, start=0.2)
DATA = tau_pmf()


def exact_distance(sampler: Sampler, model: str | None, budget: int) -> float:
    reverse = reverse_of(model)
    grid = [1.0, END] if isinstance(sampler, Uniformization) else grid_within(sampler, uniform_grid, budget)
    with torch.no_grad():
        law = pushforward.sample_law(sampler, reverse, 2, grid, accuracy=pushforward.COARSE)
    return hellinger_of_laws(law / law.sum(), DATA)


def sampled_distance(sampler: Sampler, model: str, budget: int, draws: int, seed: int) -> dict[str, float]:
    from tauleap.pretrained import load

    grid = uniform_grid(budget - 1) if isinstance(sampler, TauLeaping) else [1.0, END]
    generator = torch.Generator().manual_seed(seed)
    got = sample(load(model).reverse, sampler, (draws, 2), grid=grid, batch_size=2000, generator=generator)
    return {"hellinger": hellinger(got.x0, DATA).value, "evaluations": got.info.evaluations}


def marginals(model: str, budget: int) -> list[torch.Tensor]:
    reverse = reverse_of(model)
    with torch.no_grad():
        law, laws = pushforward.laws_at(
            TauLeaping(), reverse, pushforward.prior(reverse, 2), uniform_grid(budget - 1), TIMES_SHOWN
        )
    return [*laws, pushforward.apply_mode(reverse, law, END)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the figure and the page")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds must be at least 2 for a standard error over seeds, got {options.seeds}")
    torch.set_num_threads(1)

    laws = StoredResults("laws.json", options.model)
    budgets: dict[str, tuple[Sampler, tuple[int, ...]]] = {
        "tau-leaping": (TauLeaping(), EVALUATIONS),
        "ancestral": (Ancestral(), EVALUATIONS),
        "tau-leaping with correctors": (WITH_CORRECTORS, EVALUATIONS[1:]),
        "trapezoidal": (Trapezoidal(), EVALUATIONS[:5]),
        "exact simulation": (Uniformization(), (0,)),
    }
    found: dict[tuple[str, str], list[float]] = {}
    for source, model in (("trained", options.model), ("exact denoiser", None)):
        for name, (sampler, numbers) in budgets.items():
            found[name, source] = [
                laws.get(f"{source}: {name}, {n}", lambda s=sampler, m=model, n=n: exact_distance(s, m, n))
                for n in numbers
            ]
    draws = StoredResults("draws.json", options.model)
    points: dict[str, list[list[dict[str, float]]]] = {}
    for name, sampler, numbers in (
        ("tau-leaping", TauLeaping(), SAMPLED_EVALUATIONS),
        ("Uniformization", Uniformization(), (0,)),
        ("NextReaction, step 0.001", NextReaction(step=0.001), (0,)),
    ):
        points[name] = [
            [
                draws.get(
                    f"{name}, {n}: {options.draws} draws, seed {seed}",
                    lambda s=sampler, n=n, seed=seed: sampled_distance(s, options.model, n, options.draws, seed),
                )
                for seed in range(options.seeds)
            ]
            for n in numbers
        ]
    own = [
        hellinger(tau_points(options.draws, generator=torch.Generator().manual_seed(seed)), DATA).value
        for seed in range(20)
    ]
    shown = [
        Trajectory(f"tau = {tau}", [*TIMES_SHOWN, 0.0], marginals(options.model, n)) for tau, n in STEPS_SHOWN.items()
    ]
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
    out.append(Curve(f"tau-leaping, {draws:,} draws", SAMPLED_EVALUATIONS, values, errors=errors))
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
    """Return the mean over seeds and its standard error."""
    values = [run["hellinger"] for run in runs]
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5


def tables(budgets, found, points, own, options) -> str:
    rows = []
    for name, (_, numbers) in budgets.items():
        for source in ("trained", "exact denoiser"):
            by_number = dict(zip(numbers, found[name, source], strict=True))
            cells = [f"{by_number[n]:.4f}" if n in by_number else "" for n in EVALUATIONS]
            if name == "exact simulation":
                cells = [*[""] * (len(EVALUATIONS) - 1), f"{found[name, source][0]:.4f}"]
            rows.append([f"{name}, {source}", *cells])
    drawn = []
    for name, runs in points.items():
        for each in runs:
            value, error = spread(each)
            work = statistics.mean(run["evaluations"] for run in each)
            drawn.append([name, f"{work:.0f}", f"{value:.4f}", f"{error:.4f}"])
    drawn.append(
        [
            "samples of the data distribution",
            "",
            f"{statistics.mean(own):.4f}",
            f"{statistics.stdev(own) / 20**0.5:.4f}",
        ]
    )
    ratio = found["tau-leaping", "trained"][-1] / found["tau-leaping", "exact denoiser"][-1]
    to_simulation = found["tau-leaping", "trained"][-1] / found["exact simulation", "trained"][0]
    return "\n\n".join(
        [
            "![Hellinger distance against evaluations; marginals from noise to data](../figures/toy.png)",
            table(["exact distribution: evaluations", *map(str, EVALUATIONS)], rows),
            "*Exact simulation has no grid, so its row has only one value.*",
            table(["samples", "evaluations", "Hellinger distance", "standard error"], drawn),
            "Ratio of the distances of the trained and the exact denoiser, tau-leaping with 1,000 evaluations: "
            f"{ratio:.3f}. "
            f"Ratio of tau-leaping with 1,000 evaluations and exact simulation, both trained: {to_simulation:.3f}.",
            f"*`python experiments/toy/figure.py --model {options.model} --draws {options.draws} --seeds "
            f"{options.seeds} --write`: from the prior to t = {END}, then the most probable x0; Hellinger distance "
            f"sqrt(1 - sum sqrt(p q)). Samples: {options.draws:,} points for each of {options.seeds} seeds, with the "
            "standard error over seeds; samples of the data distribution over 20 seeds. Correctors: one per step for "
            "t < 0.2, half as long as the step.*",
        ]
    )


if __name__ == "__main__":
    main()
