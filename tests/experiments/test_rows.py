"""The rows of the music and image tables have the stated number of network evaluations."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tauleap.sampling import Sampler, Trapezoidal, WithCorrector

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


NAMES = ("rows", "models", "songs", "pictures")
"""Modules whose names several experiments share."""


def rows_of(experiment: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS / experiment))
    others = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    found = importlib.import_module("rows")
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(others)
    return found


def num_evaluations(sampler: Sampler, times: list[float]) -> int:
    """Return the number of evaluations, including the last step."""
    if isinstance(sampler, WithCorrector):
        return 1 + len(times) - 1 + sampler.steps * sum(s < sampler.start for s in times[1:])
    return 1 + (2 if isinstance(sampler, Trapezoidal) else 1) * (len(times) - 1)


@pytest.mark.parametrize("experiment", ["music", "images"])
def test_rows_have_the_stated_number_of_evaluations(experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(experiment, monkeypatch)
    assert len(rows.ROWS) > len(rows.TABLE) > 5
    for name, row in rows.ROWS.items():
        cost = (1 if row.guidance == 1 else 2) * num_evaluations(row.sampler, row.grid.tolist())
        assert cost <= 1.01 * row.evaluations, name  # All rows have nearly equal budgets.
        more = row.sampler.steps + 1 if isinstance(row.sampler, WithCorrector) else 2
        assert cost > row.evaluations - max(more, 2), name
        if row.lattice is not None:
            assert all((row.lattice * t).is_integer() for t in row.grid.tolist()), name


def test_the_step_of_the_papers_music(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = rows_of("music", monkeypatch).TABLE["uniform-991"].grid
    assert float((grid[:-1] - grid[1:]).min()) == pytest.approx(0.001)
    assert float((grid[:-1] - grid[1:]).max()) == pytest.approx(0.001)
