"""The rows of a benchmark, and how benchmarks are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure, ``value`` in ``unit``, and its target."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f">= {_short(self.at_least)}"
        return "" if self.at_most is None else f"<= {_short(self.at_most)}"

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if there is no target."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def figure(self) -> str:
        return f"{_short(self.value)} {self.unit}"


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e4:
        return str(int(value))
    return f"{value:.1e}" if abs(value) < 1e-2 or abs(value) >= 1e4 else f"{value:.3g}"


Benchmark = Callable[[], Iterable[Row]]
_GROUPS: dict[str, list[Benchmark]] = {}


def benchmark(function: Benchmark) -> Benchmark:
    """Register a function that yields rows, under the name of its file."""
    _GROUPS.setdefault(function.__module__.rpartition(".")[2], []).append(function)
    return function


def groups() -> list[str]:
    """Return the names of the files of this folder that have benchmarks."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            importlib.import_module(f"benchmarks.{module.name}")
    return sorted(_GROUPS)


def run(group: str) -> Iterator[Row]:
    for function in _GROUPS[group]:
        yield from function()
