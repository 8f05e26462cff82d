"""The common structure of these scripts: compute, store the results as JSON, draw a figure and write a page."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tauleap.evaluate.plots import STYLE, save_png

sys.path[:0] = [str(Path(__file__).parents[2] / "diagnostics")]

from _page import FIGURES, table, write  # noqa: E402

__all__ = [
    "COLOURS",
    "TEXT",
    "Experiment",
    "folded",
    "legend_below",
    "or_rounding",
    "orders_of_magnitude",
    "panels",
    "picture",
    "scales",
    "table",
]

RESULTS = Path(__file__).parent / "results"
ROUNDING = 1e-12
LINE = 120
TEXT: dict[Any, Any] = {"axes.titlesize": 9, "axes.labelsize": 9}
COLOURS: list[tuple[float, float, float]] = list(matplotlib.colormaps["tab10"].colors)  # pyright: ignore


class Experiment(NamedTuple):
    """One experiment: ``compute`` returns results for a JSON file, and ``text`` and ``figure`` use only these.

    If ``figure`` returns a dictionary of figures, ``text`` contains their links.
    """

    name: str
    about: str
    compute: Callable[[], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]
    figure: Callable[[dict[str, Any]], Figure | dict[str, Figure]]

    def main(self) -> None:
        parser = argparse.ArgumentParser(description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--write", action="store_true", help="store the results, and write figure and page")
        parser.add_argument("--redraw", action="store_true", help="write figure and page from the stored results")
        options = parser.parse_args()
        torch.set_num_threads(1)
        results = self.stored() if options.redraw else self.computed()
        print(self.block(results))
        if options.write:
            RESULTS.mkdir(exist_ok=True)
            self._file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        if options.write or options.redraw:
            drawn = self.figure(results)
            for key, figure in drawn.items() if isinstance(drawn, dict) else [("", drawn)]:
                save_png(figure, FIGURES / f"theory_{self.name}{key and '_'}{key}.png")
            write(f"experiments/theory/{self.name}.md", "results", self.block(results))

    def computed(self) -> dict[str, Any]:
        began = time.process_time()
        found = rounded(self.compute())
        return {"processor seconds": round(time.process_time() - began), **found}

    def stored(self) -> dict[str, Any]:
        return json.loads(self._file.read_text(encoding="utf-8"))

    def block(self, results: dict[str, Any]) -> str:
        text = self.text({key: value for key, value in results.items() if key != "processor seconds"}).strip()
        if "figures/theory_" not in text:
            text = f"{picture(self.about.splitlines()[0], self.name)}\n\n{text}"
        command = (
            f"*`python experiments/theory/{self.name}.py --write`: {duration(results['processor seconds'])} of one "
            f"core; the numbers are in `experiments/theory/results/{self.name}.json`.*"
        )
        return wrapped(f"{text}\n\n{command}")

    @property
    def _file(self) -> Path:
        return RESULTS / f"{self.name}.json"


def picture(words: str, name: str) -> str:
    """Return the link of a figure for a page."""
    return f"![{words}](../../figures/theory_{name}.png)"


def folded(summary: str, text: str) -> str:
    """Return a folded part of the page."""
    return f'<details markdown="1">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def wrapped(text: str) -> str:
    """Wrap prose at LINE characters outside formulae; tables, images, headings and displayed formulae do not change."""
    lines: list[str] = []
    displayed = False
    for line in text.split("\n"):
        displayed ^= line.startswith("$$")
        if displayed or line.startswith(("$$", "|", "!", "#", "<")):
            lines.append(line)
            continue
        unbroken = re.sub(r"\$[^$]+\$", lambda formula: formula[0].replace(" ", "\0"), line)
        indent = "  " if line.startswith("- ") else ""
        filled = textwrap.wrap(unbroken, LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines += [each.replace("\0", " ") for each in filled] or [""]
    return "\n".join(lines)


def or_rounding(value: float, form: str) -> str:
    """Return ``value`` in a format, or "rounding" if it is only a rounding error."""
    return format(value, form) if abs(value) >= ROUNDING else "rounding"


def duration(seconds: int) -> str:
    return {0: "less than a second", 1: "1 second"}.get(seconds, f"{seconds} seconds")


def rounded(value: Any) -> Any:
    """Round numbers to eight digits, so that stored results do not depend on the last bits of a machine."""
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """Return a figure in the project's style, and its panels row by row.

    A page is about 750 pixels wide, so text of 8 points is legible in figures of up to 8 inches.
    """
    with matplotlib.rc_context(STYLE | TEXT):
        figure = Figure(figsize=size, layout="constrained")
        return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def scales(axes: Axes, *, legend: bool = True, **labels: Any) -> None:
    """Add titles, ticks and a light grid to a panel."""
    with matplotlib.rc_context(TEXT):
        axes.set(**labels)
    axes.tick_params(which="major", bottom=True, labelbottom=True, left=True, labelleft=True, labelsize=8, length=3)
    axes.grid(visible=True, linewidth=0.3)
    if legend:
        axes.legend(fontsize=8, frameon=False)


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """Add one legend below all panels, with the labels of ``axes``."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def orders_of_magnitude(ratios: Iterable[float]) -> str:
    """Return the range of log10 of the ratios as text."""
    powers = [math.log10(ratio) for ratio in ratios]
    return f"{min(powers):.1f} to {max(powers):.1f} orders of magnitude"
