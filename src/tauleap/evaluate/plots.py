"""Pictures, in one style.

Figures are made from matplotlib's classes and not by pyplot, which keeps every figure alive in a global list and picks
a window system: here nothing is shown, nothing leaks, and no display is needed.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from jaxtyping import Float, Int64
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from tauleap import _check, _files

STYLE: dict[Any, Any] = {
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "0.6",
    "image.cmap": "BuPu",
    "image.interpolation": "nearest",
    "xtick.bottom": False,
    "xtick.labelbottom": False,
    "ytick.left": False,
    "ytick.labelleft": False,
}
"""The matplotlib settings of every picture."""

_INK = "#6e016b"


def draw_laws(laws: Float[Tensor, "laws x y"], titles: Sequence[str]) -> Figure:
    """Draw two-dimensional distributions side by side, on one colour scale.

    Args:
        laws: The tables, ``laws[i, x, y]`` with y upwards.
        titles: One title per table.

    Returns:
        The figure, which :func:`save_png` writes.

    >>> import torch
    >>> figure = draw_laws(torch.full((2, 3, 3), 1 / 9), ["data", "samples"])
    >>> [axes.get_title() for axes in figure.axes]  # the last is the colour bar
    ['data', 'samples', '']
    """
    if len(titles) != len(laws):
        raise ValueError(
            f"titles must have one entry per distribution, got {len(laws)} distributions and {len(titles)} titles"
        )
    if len(laws) == 0:
        raise ValueError("laws must hold at least one law, got none")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.7 * len(laws) + 0.7, 2.0), layout="constrained")
        panels = figure.subplots(1, len(laws), squeeze=False)[0]
        brightest = laws.max().item()
        images = []
        for panel, law, title in zip(panels, laws, titles, strict=True):
            table = law.detach().cpu().double().numpy()
            images.append(panel.imshow(table.T, origin="lower", vmin=0, vmax=brightest))
            panel.set_title(title)
        bar = figure.colorbar(images[0], ax=list(panels), shrink=0.8, pad=0.02, label="probability")
        bar.ax.tick_params(right=True, labelright=True, labelsize=7)
        return figure


def draw_points(points: Int64[Tensor, "n 2"], num_states: int, title: str = "") -> Figure:
    """Draw points (x, y), y upwards.

    Each point has a fixed position within its cell in every picture, so that points of one cell do not hide each other
    and a point of an animation moves only when its state does.

    Args:
        points: The states of two sites per point.
        num_states: The number of states of a site.
        title: The title. Default: none.

    Returns:
        The figure, whose size and axes are the same for every title, as a frame of :func:`save_gif` needs.

    >>> import torch
    >>> figure = draw_points(torch.tensor([[0, 1], [2, 2]]), num_states=3, title="t = 0.5")
    >>> figure.axes[0].collections[0].get_offsets().shape
    (2, 2)
    """
    num_states = _check.integer("num_states", num_states, least=2)
    with matplotlib.rc_context(STYLE):
        # A fixed place, whatever the title: the frames of a film must agree.
        figure = Figure(figsize=(3.2, 3.4))
        panel = figure.add_axes((0.02, 0.02, 0.96, 0.90))
        x, y = points.detach().cpu().unbind(-1)
        # Multiples of the plastic number's inverse powers fill the unit square evenly.
        place_x = [math.fmod(0.7548776662466927 * i, 1.0) - 0.5 for i in range(len(x))]
        place_y = [math.fmod(0.5698402909980532 * i, 1.0) - 0.5 for i in range(len(y))]
        panel.scatter(x.numpy() + place_x, y.numpy() + place_y, s=4, color=_INK, alpha=0.6, linewidths=0)
        panel.set(xlim=(-0.5, num_states - 0.5), ylim=(-0.5, num_states - 0.5), aspect="equal", title=title)
        return figure


def save_png(figure: Figure, path: str | os.PathLike[str], *, colours: int | None = None) -> Path:
    """Write the figure at twice its nominal resolution, and return the path.

    Args:
        figure: The figure.
        path: The file to write.
        colours: The size of the palette; with one, a picture of many small elements takes a quarter of the bytes.
            Default: None, true colour.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_png(draw_points(torch.tensor([[0, 1]]), 3), Path(folder, "points.png"))
    ...     with Image.open(path) as picture:
    ...         picture.size
    (640, 680)
    """
    with matplotlib.rc_context(STYLE), _files.atomic_write(path) as file:
        if colours is None:
            FigureCanvasAgg(figure).print_figure(file, format="png", dpi=2 * figure.dpi)
        else:
            whole = io.BytesIO()
            FigureCanvasAgg(figure).print_figure(whole, format="png", dpi=2 * figure.dpi)
            Image.open(whole).convert("RGB").quantize(colours).save(file, format="PNG", optimize=True)
    return Path(path)


def save_gif(
    figures: Iterable[Figure],
    path: str | os.PathLike[str],
    *,
    seconds_per_frame: float = 0.08,
    seconds_at_ends: float = 1.0,
) -> Path:
    """Write the figures as a looping animation that pauses at its first and last picture, and return the path.

    Figures are drawn one by one, so a generator of them needs no more memory than their pixels.

    Args:
        figures: The figures.
        path: The file to write.
        seconds_per_frame: The duration of a picture, in seconds. Default: 0.08.
        seconds_at_ends: The duration of the first and the last picture, in seconds. Default: 1.

    >>> import tempfile, torch
    >>> frames = (draw_points(torch.tensor([[0, y]]), 3, title=f"y = {y}") for y in range(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Image.open(save_gif(frames, Path(folder, "points.gif"))) as film:
    ...         film.n_frames
    3
    """
    frame = _check.positive("seconds_per_frame", seconds_per_frame)
    ends = _check.positive("seconds_at_ends", seconds_at_ends)
    frames = [_pixels(figure) for figure in figures]
    if not frames:
        raise ValueError("figures must hold at least one figure, got none")
    durations = [round(1000 * frame)] * len(frames)
    durations[0] = durations[-1] = round(1000 * ends)
    film = io.BytesIO()  # Pillow hides the error of a full disk when it writes into a file
    frames[0].save(film, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    with _files.atomic_write(path) as file:
        file.write(film.getbuffer())
    return Path(path)


def _pixels(figure: Figure) -> Image.Image:
    with matplotlib.rc_context(STYLE):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba()))
    return picture.convert("RGB").quantize(64)
