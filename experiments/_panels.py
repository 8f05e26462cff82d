"""Draw the figures of the experiments in one style."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tauleap.evaluate.plots import STYLE, save_png

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
COLOURS = ("#6e016b", "#41b6c4", "#d95f0e", "#238b45", "#4d4d4d", "#8c96c6", "#fec44f", "#e7298a", "#a6761d", "#1f78b4")
_TICKS = {"xtick.bottom": True, "xtick.labelbottom": True, "ytick.left": True, "ytick.labelleft": True}


@contextmanager
def panels(name: str, count: int, width: float = 4.2) -> Iterator[list[Axes]]:
    """Yield ``count`` axes side by side, and write the figure to docs/figures afterwards."""
    with matplotlib.rc_context(STYLE | _TICKS):
        figure = Figure(figsize=(width * count, 3.2), layout="constrained")
        yield list(figure.subplots(1, count, squeeze=False)[0])
        print(f"written: {save_png(figure, FIGURES / f'{name}.png')}")
