"""Measure orders of convergence: exact total variation against network evaluations, on enumerable spaces.

    python diagnostics/convergence.py [--write]

Two dependent sites of three states under each kind of noise, and one site with a smooth distribution, with the exact
denoiser. The initial distribution is q_1, there is no final step, and the target is q at t = 0.1. Only the number of
evaluations of FirstJump is random. Slopes are regressions over the four finest grids. ``--write`` writes figure and
table to docs/samplers.md.
"""

from __future__ import annotations

import argparse
import math

import matplotlib
import torch
from _page import FIGURES, table, write
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from tauleap.evaluate.plots import STYLE, save_png
from tauleap.evaluate.pushforward import marginal, pushforward_grid
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    sample,
    uniform_grid,
)
from tauleap.testing.cases import NAMES, correlated, draws, slope, smooth, total_variation

END = 0.1
BUDGETS = (8, 16, 32, 64, 128, 256)
SAMPLERS: list[Sampler] = [
    TauLeaping("add"),
    TauLeaping("reject"),
    TauLeaping("last"),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Trapezoidal(),
    Extrapolated(),
    FirstJump(),
]
COLOURS = dict(zip(map(repr, SAMPLERS), matplotlib.colormaps["tab10"].colors, strict=False))  # pyright: ignore


def curve(sampler: Sampler, reverse: ReverseProcess, law: Tensor) -> tuple[list[float], list[float]]:
    """Network evaluations and errors of a curve."""
    start, target = marginal(reverse, law, 1.0), marginal(reverse, law, END)
    work, errors = [], []
    for budget in BUDGETS:
        steps = budget // 2 if sampler.order == 2 else budget
        grid = uniform_grid(steps, end=END)
        work.append(evaluations(sampler, reverse, law, grid))
        errors.append(total_variation(pushforward_grid(sampler, reverse, start, grid), target))
    return work, errors


def evaluations(sampler: Sampler, reverse: ReverseProcess, law: Tensor, grid: Tensor) -> float:
    if not isinstance(sampler, FirstJump):
        return (len(grid) - 1) * sampler.order
    generator = torch.Generator().manual_seed(0)
    x = reverse.process.noise(draws(law, 1000, generator), 1.0, generator=generator)
    return sample(reverse, sampler, x.shape, grid=grid, start=x, final="none", generator=generator).info.evaluations


def next_reaction(reverse: ReverseProcess, law: Tensor) -> tuple[list[float], list[float]]:
    start, target = marginal(reverse, law, 1.0), marginal(reverse, law, END)
    steps = [0.1, 0.05, 0.025, 0.0125]
    return steps, [
        total_variation(pushforward_grid(NextReaction(h), reverse, start, [1.0, END]), target) for h in steps
    ]


def fits(sampler: Sampler, reverse: ReverseProcess) -> bool:
    try:
        sampler.check(reverse.process)
    except ValueError:
        return False
    return True


def order(work: list[float], errors: list[float]) -> float:
    """Return the slope in the number of steps, or in the step of NextReaction; nan if errors are only rounding."""
    if min(errors) < 1e-10:
        return math.nan
    if len(errors) == len(BUDGETS):
        return -slope([float(budget) for budget in BUDGETS[-4:]], errors[-4:])
    return slope(work, errors)


def panel(axes, title: str, curves: dict[str, tuple[list[float], list[float]]], label: str) -> None:
    for name, (work, errors) in curves.items():
        if not math.isnan(order(work, errors)):
            axes.loglog(work, errors, ".-", color=COLOURS.get(name), label=name, linewidth=1)
    axes.set(title=title, xlabel=label, ylabel="total variation")
    axes.tick_params(which="major", bottom=True, labelbottom=True, left=True, labelleft=True, labelsize=8, length=3)
    axes.grid(visible=True, linewidth=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put figure and table into docs/samplers.md")
    options = parser.parse_args()
    torch.set_num_threads(1)

    cases = {f"{name}, two sites": correlated(name, sites=2) for name in NAMES}
    cases["birth/death, one smooth site"] = smooth("birth/death", sites=1)
    results = {
        title: {repr(sampler): curve(sampler, *case) for sampler in SAMPLERS if fits(sampler, case[0])}
        for title, case in cases.items()
    }
    refined = {name: next_reaction(*correlated(name, sites=2)) for name in NAMES}

    with matplotlib.rc_context(STYLE | {"axes.titlesize": 9, "axes.labelsize": 9}):
        figure = Figure(figsize=(8, 9.5), layout="constrained")
        panels = figure.subplots(3, 2)
        for axes, (title, curves) in zip(panels.flat, results.items(), strict=False):
            panel(axes, title, curves, "evaluations")
        panel(panels.flat[-1], "NextReaction, two sites", refined, "its step")
        panels.flat[-1].legend(fontsize=8, frameon=False)
        keys = [Line2D([], [], color=colour, marker=".", linewidth=1, label=name) for name, colour in COLOURS.items()]
        figure.legend(handles=keys, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    rows = []
    for sampler in map(repr, SAMPLERS):
        cells = []
        for curves in results.values():
            if sampler not in curves:
                cells.append("")
                continue
            work, errors = curves[sampler]
            at_128 = errors[BUDGETS.index(128)]
            power = order(work, errors)
            cells.append("exact" if math.isnan(power) else f"{at_128:.1e} ({power:.2f})")
        rows.append([f"`{sampler}`", *cells])
    cells = [f"({slope(*refined[name]):.2f} in its step)" for name in NAMES]
    rows.append(["`NextReaction()`", *cells, ""])
    text = table(["total variation at 128 evaluations (order)", *results], rows)
    print(text)
    if options.write:
        save_png(figure, FIGURES / "convergence.png")
        caption = (
            "![Total variation against evaluations, log-log](figures/convergence.png)\n\n"
            f"{text}\n\n"
            "*`python diagnostics/convergence.py --write`: laws pushed exactly through the steps, uniform grids from "
            f"q_1 to q_{END:g}; data laws by `testing.cases` with seed 1; slopes over the four finest of "
            f"{BUDGETS[0]} to {BUDGETS[-1]} evaluations. FirstJump has as many steps as the others that ask twice; it "
            "is drawn at its mean number of evaluations in 1,000 runs, seed 0, and its order is in the number of "
            "steps.*"
        )
        write("samplers.md", "convergence", caption)


if __name__ == "__main__":
    main()
