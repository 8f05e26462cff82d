"""Numbers go from the scripts of this folder into the documentation between two marks, and are never typed."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = DOCS / "figures"


def write(page: str, name: str, text: str) -> None:
    """Replaces what stands between the marks ``name`` in docs/``page``."""
    path = DOCS / page
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{path} must have the marks {begin} and {end}")
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, the first column to the left and the others to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
