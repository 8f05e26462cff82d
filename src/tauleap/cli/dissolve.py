"""The forward process, seen: a tau dissolves into noise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tauleap.data import tau_pmf, tau_points
from tauleap.evaluate import plots
from tauleap.noise import Exponential, ForwardProcess, Gaussian

_TIMES = (0.0, 0.05, 0.15, 0.3, 0.6, 1.0)
_FRAMES = 49


def dissolve(out: Path, *, points: int, seed: int, as_json: bool = False) -> None:
    """Writes ``laws.png`` and ``points.gif`` into the folder ``out`` and prints how far each law is from noise."""
    # The settings of the toy experiment of Campbell et al.
    process = Gaussian(32, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0)
    laws = torch.stack([law_at(process, tau_pmf(process.num_states), t) for t in _TIMES])
    noise = torch.outer(process.prior(), process.prior())
    distances = (laws - noise).abs().sum((1, 2)) / 2

    generator = torch.Generator().manual_seed(seed)
    start = tau_points(points, size=process.num_states, generator=generator)
    png = plots.save_png(plots.draw_laws(laws, [f"t = {t:g}" for t in _TIMES]), out / "laws.png")
    gif = plots.save_gif(film(process, start, generator), out / "points.gif")

    if as_json:
        facts = {"files": [str(png), str(gif)], "times": list(_TIMES), "distances": distances.tolist()}
        print(json.dumps(facts))
        return
    table = Table("t", "TV(q_t, stationary law)", title="A tau dissolves into noise")
    for t, distance in zip(_TIMES, distances.tolist(), strict=True):
        table.add_row(f"{t:g}", f"{distance:.4f}")
    Console().print(table)
    # Not through rich, which would break a long path into pieces that cannot be copied.
    print(f"the laws q_t:        {png}")
    print(f"points on their way: {gif}")


def law_at(process: ForwardProcess, pmf: Float[Tensor, "x y"], t: float) -> Float[Tensor, "x y"]:
    """q_t of two dimensions together, exactly: each is noised on its own, so the kernel acts on one axis at a time."""
    along_y = process.propagate(pmf[None], t)
    return process.propagate(along_y.transpose(1, 2), t).transpose(1, 2)[0]


def film(process: ForwardProcess, x: Int64[Tensor, "n 2"], generator: torch.Generator) -> Iterator[Figure]:
    """Figures of one path of the chain, x_s -> x_t from frame to frame, so that points can be followed by eye."""
    # Squares of equal steps: the letter is gone early, so most frames are spent there.
    times = (torch.linspace(0, 1, _FRAMES, dtype=torch.float64) ** 2).tolist()
    yield plots.draw_points(x, process.num_states, "t = 0.00")
    for s, t in pairwise(times):
        x = process.noise(x, t, s, generator=generator)
        yield plots.draw_points(x, process.num_states, f"t = {t:.2f}")
