"""Completions of music: the rows to complete where no file is given, and their piano rolls."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from tauleap.data import Dataset, Format
from tauleap.data.music.format import MusicFormat
from tauleap.evaluate.plots import save_png
from tauleap.evaluate.rolls import draw_rolls

_DRAWN = 12


def begin_with_opening(form: Format) -> Dataset:
    return form.completion_start()


def draw_completions(form: MusicFormat, x: Tensor, known: Tensor, path: Path) -> Path:
    """The first rows of all variants, x (variants, rows, steps), what is known in grey and black lines around it."""
    variants, rows, _ = x.shape
    chosen = [(variant, row) for row in range(rows) for variant in range(variants)][:_DRAWN]
    titles = [
        (f"row {row + 1}, " if rows > 1 else "") + (f"variant {variant + 1}" if variants > 1 else "completed")
        for variant, row in chosen
    ]
    variant, row = zip(*chosen, strict=True)
    melodies = form.pitches(x[list(variant), list(row)])
    return save_png(draw_rolls(melodies.long(), titles, given=known[list(row)]), path)
