"""Validation during training: its noise, its rows and its cost."""

import csv
import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from tauleap.training import Run, Settings, train
from tauleap.training.budget import _with_steps


def test_validations_of_equal_weights_agree(recipe, tmp_path: Path) -> None:
    """The noise is fixed, so that a difference between two validations is one of the weights."""
    made = recipe(steps=20, held_out=True, validate_every=5, dropout=0.0)
    made = dataclasses.replace(made, settings=dataclasses.replace(made.settings, lr=1e-30))
    run = Run(out=tmp_path, device="cpu", tensorboard=False)
    train(made, run, console=Console(file=io.StringIO()))
    with (tmp_path / "validation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [5, 10, 15, 20]
    assert len({row["bits_per_dim"] for row in rows}) == 1
    assert float(rows[0]["stderr"]) > 0


@pytest.mark.parametrize(
    ("batch_size", "steps", "held_out", "rows"),
    [
        (256, 7000, 3256, 3256),  # a table in a minute
        (16, 2500, 50_000, 3000),  # text in three minutes
        (8, 2000, 400, 400),
        (16, 600, 6000, 960),  # pictures, of which 3,000 would take a third of the time
        (4, 10, 50, 16),
        (256, 500_000, 10**6, 16_384),
    ],
)
def test_validations_have_enough_rows_and_cost_a_tenth(batch_size: int, steps: int, held_out: int, rows: int) -> None:
    settings = _with_steps(Settings(batch_size, 1e-3), steps, None, held_out)
    assert settings.validation_rows == rows
    assert settings.validate_every is not None
    number = steps // settings.validate_every
    assert number <= 8
    if steps >= 100:
        # An evaluation takes a third of a training step per row.
        assert number * rows / 3 <= 0.101 * steps * batch_size
        assert number >= 3
