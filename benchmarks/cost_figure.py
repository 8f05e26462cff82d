"""Draw the cost of a step and of a loss against the number of states, of sites, and the fraction of sites that move.

    python benchmarks/cost_figure.py              # measures, about a minute of one core, and draws
    python benchmarks/cost_figure.py --only sites # measures one panel again
    python benchmarks/cost_figure.py --draw       # draws benchmarks/cost_figure.json again

An output layer from 256 numbers per site to S logits, under absorbing noise with half of the sites masked, two rows.
The step and the loss are compared with the same layer at all sites: its logits, and cross entropy with its gradient.
CPU time of one thread, the minimum of some calls that alternate. Writes docs/figures/cost.png.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tauleap import ReverseProcess
from tauleap.denoise import NetworkDenoiser
from tauleap.noise import Absorbing, LogLinear
from tauleap.objective import CompleteElbo
from tauleap.sampling import Ancestral

RESULTS = Path(__file__).with_suffix(".json")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "cost.png"
ROWS, WIDTH = 2, 256
SITES, STATES, MOVING = 64, 10_000, 0.1
STATES_SHOWN = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
SITES_SHOWN = (16, 64, 256, 1024)
MOVING_SHOWN = (0.01, 0.03, 0.1, 0.3, 1.0)
ROUNDS, SECONDS = 3, 0.3
"""Calls at least, and the time for which fast calls are repeated."""
KINDS = {
    "step": ("step", "#6e016b", "-"),
    "logits": ("logits of all sites", "#6e016b", ":"),
    "loss": ("loss", "#1f9eb5", "-"),
    "cross entropy": ("cross entropy of all sites", "#1f9eb5", ":"),
}


class Head(nn.Module):
    """Hold hidden states of each site, and an output layer."""

    def __init__(self, sites: int, states: int) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(ROWS, sites, WIDTH))
        self.output = nn.Linear(WIDTH, states, bias=False)

    def forward(self, x: Tensor, *, return_hidden: bool = False) -> Tensor:
        return self.hidden[: len(x)] if return_hidden else self.head(self.hidden[: len(x)], x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        return self.output(hidden)


def measured(sites: int, states: int, moving: float) -> dict[str, float]:
    """Return the least CPU time of each call, in seconds.

    Args:
        sites: The number of sites per row.
        states: The number of states, with the mask.
        moving: The fraction of the masked sites that move in a step.
    """
    torch.manual_seed(0)
    network, process, t = Head(sites, states), Absorbing(states, LogLinear()), 0.5
    reverse, generator = ReverseProcess(process, NetworkDenoiser(network)), torch.Generator().manual_seed(0)
    x0 = torch.randint(states - 1, (ROWS, sites))
    noisy = x0.clone()
    noisy[:, ::2] = states - 1

    def loss() -> None:
        network.zero_grad()
        CompleteElbo()(reverse, x0, t=t, generator=generator).mean().backward()

    def plain_loss() -> None:
        network.zero_grad()
        cross_entropy(network(noisy).flatten(0, 1), x0.flatten()).backward()

    @torch.no_grad()
    def step() -> None:
        Ancestral().step(reverse, noisy, t, t * (1 - moving), generator=generator)

    @torch.no_grad()
    def logits() -> None:
        network(noisy)

    calls: dict[str, Callable[[], None]] = {
        "step": step,
        "logits": logits,
        "loss": loss,
        "cross entropy": plain_loss,
    }
    best, spent, done = dict.fromkeys(calls, float("inf")), dict.fromkeys(calls, 0.0), 0
    while done < ROUNDS or any(seconds < SECONDS for seconds in spent.values()):
        for name, call in calls.items():
            if done >= ROUNDS and spent[name] >= SECONDS:
                continue
            began = time.process_time()
            call()
            used = time.process_time() - began
            best[name], spent[name] = min(best[name], used), spent[name] + used
        done += 1
    return best


def draw(results: dict[str, Any]) -> None:
    """Draw three panels with lines that have their names beside them."""
    import matplotlib
    from matplotlib.figure import Figure

    from tauleap.evaluate.plots import STYLE, save_png

    shown = {"xtick.bottom": True, "xtick.labelbottom": True, "ytick.left": True, "ytick.labelleft": True}
    with matplotlib.rc_context(STYLE | shown | {"font.size": 11, "axes.titlesize": 11}):
        figure = Figure(figsize=(7, 7.4), layout="constrained")
        panels = figure.subplot_mosaic([["states", "states"], ["sites", "moving"]])
        labels = {
            "states": f"states S; {ROWS} rows of {SITES} sites, a tenth of the masked ones move",
            "sites": f"sites per row; S = {STATES:,}",
            "moving": f"moving / masked sites; S = {STATES:,}",
        }
        for key, axes in panels.items():
            points, kinds = results[key], dict(KINDS)
            if key == "moving":  # losses do not depend on it
                kinds = {kind: KINDS[kind] for kind in ("step", "logits")}
            xs = [float(x) for x in points]
            for kind, (name, colour, style) in kinds.items():
                ys = [1e3 * points[x][kind] for x in points]
                axes.loglog(xs, ys, color=colour, linestyle=style, linewidth=1.8, marker="o", markersize=3)
                place, offset, side = (xs[-1], ys[-1]), (7, 0), "left"
                if key == "moving":
                    middle = len(xs) // 2
                    place, offset = (xs[middle], ys[middle]), (0, 10) if kind == "logits" else (8, -8)
                    side = "center" if kind == "logits" else "left"
                elif key == "sites":
                    name = name.removesuffix(" of all sites")
                axes.annotate(
                    name, place, xytext=offset, textcoords="offset points", color=colour, va="center", ha=side
                )
            axes.set_xlabel(labels[key])
            axes.set_ylabel("CPU time, ms")
            axes.spines[["top", "right"]].set_visible(False)
        panels["states"].set_xlim(right=max(STATES_SHOWN) * 12)
        panels["states"].set_xticks([10**k for k in (2, 3, 4, 5)])
        panels["sites"].set_xlim(right=max(SITES_SHOWN) * 30)
        panels["sites"].set_xticks([10, 100, 1000])
        save_png(figure, FIGURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("states", "sites", "moving"), help="the panel to measure. Default: all")
    parser.add_argument("--draw", action="store_true", help="draw the stored times again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    panels: dict[str, Callable[[], dict[str, Any]]] = {
        "states": lambda: {str(states): measured(SITES, states, MOVING) for states in STATES_SHOWN},
        "sites": lambda: {str(sites): measured(sites, STATES, MOVING) for sites in SITES_SHOWN},
        "moving": lambda: {str(moving): measured(SITES, STATES, moving) for moving in MOVING_SHOWN},
    }
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in () if options.draw else panels if options.only is None else (options.only,):
        results[name] = panels[name]()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if len(results) == len(panels):
        draw(results)


if __name__ == "__main__":
    main()
