"""Print the table of results, and write it to a file."""

from __future__ import annotations

import datetime
import platform
import re
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._rows import Row

RESULTS = Path(__file__).with_name("results.md")
_MARKS = {True: "reached", False: "MISSED", None: ""}
_COLOURS = {True: "green", False: "bold red", None: "dim"}


def machine() -> str:
    return (
        f"{_processor()}, {torch.get_num_threads()} thread(s), torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )


def show(console: Console, results: dict[str, list[Row]]) -> None:
    table = Table(title="Benchmarks", caption=machine())
    for column in ("group", "case", "measured", "target", ""):
        table.add_column(column, justify="right" if column in ("measured", "target") else "left")
    for group, rows in results.items():
        table.add_section()
        for row in rows:
            mark = f"[{_COLOURS[row.reached]}]{_MARKS[row.reached]}"
            table.add_row(group, row.name, row.figure, row.target, mark)
    console.print(table)
    reached = [row.reached for rows in results.values() for row in rows if row.reached is not None]
    console.print(f"{sum(reached)} of {len(reached)} targets reached")


def write(results: dict[str, list[Row]], command: str) -> None:
    """Replace the sections of these groups by new ones."""
    sections = _sections()
    for group, rows in results.items():
        lines = [f"{datetime.date.today()}, {machine()}: `{command}`", ""]
        lines += ["| what | measured | target | |", "|---|---:|---:|---|"]
        lines += [f"| {row.name} | {row.figure} | {row.target} | {_MARKS[row.reached]} |" for row in rows]
        sections[group] = "\n".join(lines)
    text = "# Benchmarks: the last numbers\n\nWritten by `python -m benchmarks --write`.\n"
    for group in sorted(sections):
        text += f"\n## {group}\n\n{sections[group]}\n"
    RESULTS.write_text(text)


def _sections() -> dict[str, str]:
    if not RESULTS.exists():
        return {}
    parts = re.split(r"^## (\w+)\n", RESULTS.read_text(), flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
