"""Melodies as piano rolls: time to the right, pitch upwards."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from jaxtyping import Bool, Int64
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from torch import Tensor

from tauleap.evaluate.plots import STYLE

_INK, _GIVEN = "#6e016b", "#4d4d4d"
_STEPS_A_BAR, _REST = 16, 128


def draw_rolls(
    melodies: Int64[Tensor, "n steps"],
    titles: Sequence[str],
    *,
    given: Bool[Tensor, "n steps"] | None = None,
    columns: int = 1,
) -> Figure:
    """Draw melodies of pitches 0..127 (128 is a rest), one panel each on one scale, with a grey line at every bar.

    Notes that are ``given`` are grey, and a black line stands wherever what is given begins or ends.
    """
    if len(titles) != len(melodies):
        raise ValueError(f"every melody needs a title, got {len(melodies)} melodies and {len(titles)} titles")
    if len(melodies) == 0:
        raise ValueError("melodies must hold at least one melody, got none")
    sounding = melodies[melodies != _REST]
    low, high = (int(sounding.min()), int(sounding.max())) if sounding.numel() else (60, 72)
    half = max(0.45, (high - low) / 60)  # a note must be seen where the range is wide
    steps, rows = melodies.shape[1], -(-len(melodies) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.5 * columns**0.5, 0.3 + 1.15 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for panel in panels[len(melodies) :]:
            panel.set_visible(False)
        for number, (panel, title) in enumerate(zip(panels, titles, strict=False)):
            known = [False] * steps if given is None else given[number].tolist()
            notes = _notes(melodies[number].tolist(), known)
            # All notes as one collection: a patch each would take a second.
            corners = [
                [(start, pitch - half), (end, pitch - half), (end, pitch + half), (start, pitch + half)]
                for start, end, pitch in notes
            ]
            colours = [_GIVEN if known[start] else _INK for start, _, _ in notes]
            panel.add_collection(PolyCollection(corners, facecolors=colours, linewidths=0))
            panel.vlines(range(0, steps + 1, _STEPS_A_BAR), low - 1.5, high + 1.5, color="0.9", linewidth=0.5, zorder=0)
            for edge in range(1, steps):
                if known[edge] != known[edge - 1]:
                    panel.axvline(edge, color="black", linewidth=1.2)
            panel.set(xlim=(0, steps), ylim=(low - 1.5, high + 1.5))
            panel.set_title(title, loc="left", fontsize=8, pad=2)
        return figure


def _notes(row: list[int], known: list[bool]) -> list[tuple[int, int, int]]:
    """Return (start, end, pitch) of runs of equal states that are all given or all not given."""
    out, start = [], 0
    for at in range(1, len(row) + 1):
        if at == len(row) or row[at] != row[start] or known[at] != known[start]:
            if row[start] != _REST:
                out.append((start, at, row[start]))
            start = at
    return out
