"""Write the pages of the experiments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def write_page(name: str, parts: Iterable[str]) -> None:
    """Write docs/experiments/NAME.md."""
    page = DOCS / "experiments" / f"{name}.md"
    page.write_text("\n".join(_wrapped(line) for part in parts for line in part.split("\n")), encoding="utf-8")
    print(f"written: {page}")


def _wrapped(line: str) -> str:
    """Wrap prose at 120 characters, and leave tables and images unchanged."""
    if line.startswith(("|", "!", "*")):
        return line
    return textwrap.fill(
        line,
        120,
        subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2 * line.lstrip().startswith("- ")),
        break_long_words=False,
        break_on_hyphens=False,
    )
