"""Prose of the pages that experiments write."""

from __future__ import annotations

import textwrap


def wrapped(line: str) -> str:
    """Prose in lines of 120; tables and pictures as they are."""
    if line.startswith(("|", "!", "*")):
        return line
    return textwrap.fill(
        line,
        120,
        subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2 * line.lstrip().startswith("- ")),
        break_long_words=False,
        break_on_hyphens=False,
    )
