"""As many steps as there is time for, with looks at held-out rows on the way."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from tauleap.observed import Observed
from tauleap.training.checkpoint import Checkpoints
from tauleap.training.loop import Result, train
from tauleap.training.recipe import Recipe, Settings
from tauleap.training.run import Run

_LOOKS = 8


def train_until(
    end: float, recipe: Recipe, steps: int | None, folder: Path, *, accelerator: str, console: Console
) -> Result:
    """Trains for ``steps``, or for as many as there is time for.

    Args:
        end: when to stop, as ``time.monotonic()`` has it.
        recipe: what to train; how often it is looked at follows from the steps.
        steps: where to stop, if not only by the time.
        folder: of the run. Steps that were made there before do not count.
        accelerator: as :class:`Run` has it.
        console: where progress shows.
    """

    def go_on(steps: int) -> Result:
        left = end - time.monotonic()
        limit = None if math.isinf(left) else max(left, 0.1) / 60
        run = Run(folder, minutes=limit, accelerator=accelerator, tensorboard=False, keep=_LOOKS + 2)
        return train(replace(recipe, settings=_with_steps(recipe, steps)), run, console=console)

    if steps is not None:
        return go_on(steps)
    done = Checkpoints(folder, _LOOKS + 2).last_step()
    # A few steps tell the pace badly on a busy machine, so it is looked at again when the first estimate is done.
    pace, total = _seconds_a_step(recipe), end - time.monotonic()
    while True:
        left = end - time.monotonic()
        result = go_on(done + max(1, int(0.95 * left / pace)))
        more = end - time.monotonic()
        if result.stopped != "finished" or more < 0.15 * total or result.step == done:
            return result
        pace, done = (left - more) / (result.step - done), result.step


def _with_steps(recipe: Recipe, steps: int) -> Settings:
    return replace(
        recipe.settings,
        steps=steps,
        checkpoint_every=max(100, steps // _LOOKS),
        log_every=max(1, min(100, steps // 20)),
        validate_every=max(100, steps // _LOOKS),
        validation_rows=4 * recipe.settings.batch_size,
    )


def _seconds_a_step(recipe: Recipe) -> float:
    """By a few steps on a model that is thrown away."""
    data, _ = recipe.data()
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        model = recipe.model()
        optimizer = torch.optim.Adam(model.reverse.parameters(), fused=True)
        index = torch.arange(min(recipe.settings.batch_size, len(data)))
        x0, missing = data.rows(index), None if data.missing is None else data.missing[index]
        condition = None if data.condition is None else data.condition[index]
        took = []
        began = time.monotonic()
        while len(took) < 3 or (len(took) < 20 and time.monotonic() - began < 1.0):
            start = time.monotonic()
            observed = None
            if recipe.masking is not None:
                observed = Observed(recipe.masking.draw(x0, closed=missing, generator=generator), x0)
            loss = recipe.objective(
                model.reverse, x0, observed=observed, missing=missing, condition=condition, generator=generator
            )
            loss.mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            took.append(time.monotonic() - start)
    rest = sorted(took[1:])  # the first time there is more to do
    return rest[len(rest) // 2]
