"""Figure 3 of the paper: distance to the data against network evaluations, and distributions from noise to data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import matplotlib
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from tauleap.evaluate.plots import STYLE

_COLOURS = ("#4c2a85", "#c2571a", "#1b7f79", "#b8860b", "#7a7a7a", "#a02c5a")


@dataclass(frozen=True)
class Curve:
    """Hold the distances of one method at several numbers of evaluations."""

    label: str
    evaluations: Sequence[float | int]
    distances: Sequence[float]
    errors: Sequence[float] | None = None
    """Standard errors: points with bars instead of a line."""
    reference: bool = False
    """Whether the curve is dashed: the same sampler with the exact denoiser."""
    colour: int = 0


@dataclass(frozen=True)
class Trajectory:
    """Hold the distributions of two sites at some times of the reverse process, from noise to data."""

    label: str
    times: Sequence[float]
    laws: Sequence[Float[Tensor, "x y"]] = field(repr=False)


def draw_figure(curves: Sequence[Curve], levels: Mapping[str, float], trajectories: Sequence[Trajectory]) -> Figure:
    """Draw distances against evaluations on the left, and distributions from noise to data on the right.

    Args:
        curves: One per method.
        levels: Distances of horizontal lines, by label.
        trajectories: One row of panels each.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12.5, 3.9), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.5), squeeze=False)[0]
        _draw_curves(left.subplots(), curves, levels)
        rows = right.subplots(len(trajectories), max(len(each.laws) for each in trajectories), squeeze=False)
        for row, trajectory in zip(rows, trajectories, strict=True):
            for panel, t, law in zip(row, trajectory.times, trajectory.laws, strict=True):
                draw_diamonds(panel, law)
                panel.set_title(f"t = {t:.2g}" if t > 0 else "x0", fontsize=9)
            row[0].set_ylabel(trajectory.label)
        return figure


def draw_diamonds(panel: Axes, law: Float[Tensor, "x y"]) -> None:
    """Draw a distribution of two sites, with darker and larger diamonds where it is denser.

    Args:
        panel: The axes.
        law: Probabilities (x, y); y points upwards.
    """
    table = law.detach().cpu().double()
    density = (table / table.max()).sqrt()
    x, y = torch.meshgrid(*(torch.arange(side) for side in table.shape), indexing="ij")
    visible = density > 0.03
    strength = density[visible].numpy()
    colours = matplotlib.colormaps["BuPu"](0.15 + 0.85 * strength)
    panel.scatter(x[visible].numpy(), y[visible].numpy(), s=0.4 + 7 * strength, c=colours, marker="D", linewidths=0)
    panel.set(xlim=(-1, table.shape[0]), ylim=(-1, table.shape[1]), aspect="equal")


def _draw_curves(axes: Axes, curves: Sequence[Curve], levels: Mapping[str, float]) -> None:
    for curve in curves:
        colour = _COLOURS[curve.colour % len(_COLOURS)]
        if curve.errors is not None:
            axes.errorbar(
                curve.evaluations,
                curve.distances,
                yerr=curve.errors,
                fmt="o",
                markersize=4,
                markerfacecolor="white",
                capsize=2,
                linewidth=1,
                color=colour,
                label=curve.label,
            )
        else:
            style = {"linestyle": "--", "linewidth": 0.9} if curve.reference else {"marker": ".", "linewidth": 1.4}
            axes.plot(curve.evaluations, curve.distances, color=colour, label=curve.label, **style)
    for number, (label, level) in enumerate(levels.items()):
        axes.axhline(level, color="0.35", linewidth=0.9, linestyle=(":", "-.")[number % 2], label=label)
    axes.set(xscale="log", yscale="log", xlabel="evaluations of the denoiser", ylabel="Hellinger distance to the data")
    values = [d for curve in curves for d in curve.distances] + list(levels.values())
    low, high = 0.9 * min(values), 1.2 * max(values)
    ticks = [tick for tick in (0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8) if low < tick < high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    reach = np.array([n for curve in curves for n in curve.evaluations])
    numbers = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if reach.min() * 0.9 <= n <= reach.max() * 1.1]
    axes.minorticks_off()
    axes.set_xticks(numbers, map(str, numbers))
    axes.tick_params(bottom=True, labelbottom=True, left=True, labelleft=True, labelsize=8, length=3)
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(fontsize=8, edgecolor="none", framealpha=0.85)
