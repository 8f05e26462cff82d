"""Measure the Hellinger distance of every sampler, grid and number of evaluations on the paper's toy.

    python diagnostics/toy_samplers.py [--write]

S = 32, D = 2, the data distribution is an image of a tau, the noise is the paper's Gaussian process, and the denoiser
is exact. Sampling starts from the prior, ends at 0.01, and takes the most probable x0. Distributions are exact, except
that steps of two stages omit pairs of states below 1e-11. The final evaluation of the denoiser is counted; the counts
of exact simulation are means over samples. FirstJump and FirstHitting need other noise. ``--write`` writes figures and
tables to docs/samplers.md. It takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Literal

import matplotlib
import torch
from _budget import grid_within
from _page import FIGURES, table, write
from matplotlib.figure import Figure
from torch import Tensor

from tauleap.data import tau_pmf
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate import pushforward
from tauleap.evaluate.plots import STYLE, draw_laws, save_png
from tauleap.noise import Exponential, Gaussian
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    geometric_grid,
    noise_grid,
    sample,
    uniform_grid,
)
from tauleap.testing.cases import hellinger

BUDGETS = (8, 16, 32, 64)
END = 0.01
DRAWS = 500
TICKS = (0.06, 0.1, 0.2, 0.4)
FINALS: tuple[Literal["mode", "sample", "none"], ...] = ("mode", "sample", "none")

process = Gaussian(32, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0)
data = tau_pmf()
reverse = ReverseProcess(process, ExactDenoiser(data, process))

GRIDS: dict[str, Callable[[int], Tensor]] = {
    "uniform in t": uniform_grid,
    "uniform in c": lambda steps: noise_grid(process.schedule, steps),
    "geometric": geometric_grid,
}
SAMPLERS: list[Sampler] = [
    TauLeaping("reject"),
    TauLeaping("last"),
    TauLeaping("add"),
    WithCorrector(TauLeaping("add"), steps=1, scale=0.5, start=0.2),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Ancestral(look_ahead=1.0),
    WithCorrector(Ancestral(), steps=1, scale=0.5, start=0.2),
    Trapezoidal(),
    Extrapolated(),
]


def law_of(sampler: Sampler, times: Tensor) -> Tensor:
    """Return the distance of x at the last time, normalised for the omitted mass of rare pairs."""
    law = pushforward.pushforward_grid(
        sampler, reverse, pushforward.prior(reverse, 2), times, accuracy=pushforward.COARSE
    )
    return law / law.sum()


def finals(law: Tensor) -> list[Tensor]:
    """Return ``law`` at END after each of the three final steps."""
    return [pushforward.apply_final(reverse, law, END, final) for final in FINALS]


def exact_table() -> str:
    """Evaluate samplers whose cost does not depend on a grid, with each of the three final steps."""
    rows = []
    for sampler in (NextReaction(step=0.1), NextReaction(step=0.05), Uniformization()):
        run = sample(
            reverse, sampler, (DRAWS, 2), grid=[1.0, END], generator=torch.Generator().manual_seed(0)
        ).info.evaluations
        law = (
            pushforward.reverse_chain_law(reverse, data, END)
            if isinstance(sampler, Uniformization)
            else law_of(sampler, torch.tensor([1.0, END]).double())
        )
        rows.append([f"`{sampler}`", f"{run:.0f}", *(f"{hellinger(each, data):.4f}" for each in finals(law))])
        print(rows[-1], flush=True)
    noiseless = finals(pushforward.marginal(reverse, data, END))
    rows.append(["the same from q_1 instead of the prior", "", *(f"{hellinger(each, data):.4f}" for each in noiseless)])
    return table(["simulation jump by jump", "evaluations", *(f'`final="{name}"`' for name in FINALS)], rows)


def curves(distances: dict[str, dict[str, list[float]]], floor: float) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12, 4.2), layout="constrained")
        panels = figure.subplots(1, len(distances), sharey=True)
        colours = matplotlib.colormaps["tab10"].colors  # pyright: ignore[reportAttributeAccessIssue]
        for axes, (name, found) in zip(panels, distances.items(), strict=True):
            for colour, (sampler, values) in zip(colours, found.items(), strict=True):
                axes.loglog(BUDGETS, values, ".-", color=colour, linewidth=1, label=sampler)
            axes.axhline(floor, color="0.4", linewidth=0.8, linestyle=":", label="exact simulation from the prior")
            axes.set(title=f"grid {name}", xlabel="evaluations")
            axes.minorticks_off()
            axes.set_xticks(BUDGETS, map(str, BUDGETS))
            axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
            axes.tick_params(bottom=True, labelbottom=True, left=True, labelleft=True, labelsize=8, length=3)
            axes.grid(visible=True, linewidth=0.3)
        panels[0].set_ylabel("Hellinger distance")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=7, frameon=False)
        return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put figures and tables into docs/samplers.md")
    options = parser.parse_args()
    torch.set_num_threads(1)

    exact, floor = exact_table(), finals(pushforward.reverse_chain_law(reverse, data, END))[0]
    tables, shown, distances = [], {}, {}
    for name, grid in GRIDS.items():
        rows, distances[name] = [], {}
        for sampler in SAMPLERS:
            laws = [finals(law_of(sampler, grid_within(sampler, grid, budget)))[0] for budget in BUDGETS]
            found = distances[name][repr(sampler)] = [hellinger(law, data) for law in laws]
            rows.append([f"`{sampler}`", *(f"{distance:.4f}" for distance in found)])
            shown[name, repr(sampler)] = laws[BUDGETS.index(16)]
            print(name, rows[-1], flush=True)
        head = [f"grid {name}: evaluations", *map(str, BUDGETS)]
        tables.append(table(head, rows))
    print(*tables, exact, sep="\n\n")
    if not options.write:
        return
    pictures = {
        "data": data,
        "tau-leaping, add": shown["uniform in t", "TauLeaping('add')"],
        "ancestral": shown["uniform in t", "Ancestral()"],
        "geometric: add": shown["geometric", "TauLeaping('add')"],
        "geometric: ancestral": shown["geometric", "Ancestral()"],
        "exact": floor,
    }
    save_png(draw_laws(torch.stack(list(pictures.values())), list(pictures)), FIGURES / "toy_samplers.png")
    save_png(curves(distances, hellinger(floor, data)), FIGURES / "toy_curves.png")
    introduction = (
        "![Hellinger distance against evaluations, one panel a grid](figures/toy_curves.png)\n\n"
        "![Laws of the samples at 16 evaluations](figures/toy_samplers.png)\n\n"
        "*The data's law; what comes out at 16 evaluations with tau-leaping and with ancestral steps on the grid "
        "uniform in t, and on the geometric one; exact simulation.*"
    )
    command = (
        "*`python diagnostics/toy_samplers.py --write`: laws pushed exactly from the prior to t = 0.01, then the most "
        "probable x0 unless the table says otherwise; Hellinger distance sqrt(1 - sum sqrt(p q)). Evaluations of "
        f"simulation jump by jump are means over {DRAWS} samples, seed 0, the final one among them.*"
    )
    write("samplers.md", "toy", "\n\n".join([introduction, *tables, exact, command]))


if __name__ == "__main__":
    main()
