"""python -m benchmarks [group ...] [--write] [--threads N] [--patience N]"""

from __future__ import annotations

import argparse
import sys

import torch
from rich.console import Console

from benchmarks import _measure, _report, _rows


def main() -> None:
    known = _rows.groups()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print a table of ratios.")
    parser.add_argument(
        "groups", nargs="*", metavar="group", help=f"groups to run, of {', '.join(known)}. Default: all"
    )
    parser.add_argument("--write", action="store_true", help="write the figures to benchmarks/results.md")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch (default: 1)")
    parser.add_argument("--patience", type=float, default=1.0, help="factor by which to measure longer (default: 1)")
    options = parser.parse_args()
    unknown = [group for group in options.groups if group not in known]
    if unknown:
        parser.error(f"unknown group {', '.join(unknown)}: choose from {', '.join(known)}")
    torch.set_num_threads(options.threads)
    _measure.set_patience(options.patience)
    console = Console(width=None if sys.stdout.isatty() else 120)
    results: dict[str, list[_rows.Row]] = {}
    for group in options.groups or known:
        results[group] = []
        torch.manual_seed(0)
        with console.status(f"{group} ...") as status:
            for row in _rows.run(group):
                results[group].append(row)
                status.update(f"{group}: {row.name}: {row.figure}")
    _report.show(console, results)
    if options.write:
        _report.write(results, " ".join(["python -m benchmarks", *sys.argv[1:]]))


main()
