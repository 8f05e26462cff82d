"""Train for a limited time: choose the number of steps from the measured speed, and validate regularly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from lightning_fabric import Fabric
from rich.console import Console

from tauleap import _device
from tauleap.observed import Observed
from tauleap.training.checkpoint import Checkpoints
from tauleap.training.loop import Result, train
from tauleap.training.ranks import largest
from tauleap.training.recipe import Recipe, Settings
from tauleap.training.run import Run

_VALIDATIONS, _FEWEST_VALIDATIONS = 8, 3
_ROWS, _MOST_ROWS = 3000, 16384
"""Held-out rows per validation. With 256 rows the noise of a validation is larger than the gain of a minute."""
_VALIDATION_COST = 0.3
"""Evaluations for all validations per row of training, whose gradient takes twice as long as its evaluation: a tenth of
the time."""
_PARTS = (0.1, 0.4, 1.0)
"""Fractions of the time after which the number of steps is estimated again."""
KEEP = _VALIDATIONS + 2
"""Checkpoints that are kept by default: those of all validations, the first and the last."""


def train_until(
    end: float,
    recipe: Recipe,
    steps: int | None,
    run: Run,
    fabric: Fabric,
    *,
    console: Console,
    checkpoint_every: int | None = None,
) -> Result:
    """Train for ``steps``, or for as many steps as the time allows.

    The first rank reads the clock, and all ranks follow it.

    Args:
        end: The time at which to stop, as a value of ``time.monotonic()``.
        recipe: What to train; the number of steps decides how often it is validated.
        steps: The step at which to stop; None for the time limit alone.
        run: The folder and the devices. Earlier steps of a resumed run do not count.
        fabric: The processes that ``run`` has started.
        console: Where progress is shown.
        checkpoint_every: Steps between checkpoints. Default: one checkpoint per validation.

    Returns:
        The last step, the checkpoint, and why training stopped.
    """

    held_out = recipe.data()[1]
    held_out_rows = 0 if held_out is None else len(held_out)

    def seconds_left() -> float:
        return fabric.broadcast(end - time.monotonic())

    def resume(steps: int, left: float) -> Result:
        limited = replace(run, minutes=None if math.isinf(left) else max(left, 0.1) / 60)
        settings = _with_steps(recipe.settings, steps, checkpoint_every, held_out_rows)
        return train(replace(recipe, settings=settings), limited, console=console, fabric=fabric)

    if steps is not None:
        return resume(steps, seconds_left())
    done = fabric.broadcast(Checkpoints(run.folder, run.keep).last_step())
    # A few steps are a poor estimate of the speed on a busy machine, so it is measured again after the first part.
    pace = largest(fabric, [round(1e6 * _seconds_per_step(recipe, fabric, run.accumulate))])[0] / 1e6
    total = left = seconds_left()
    if recipe.settings.decay == "end":
        return _by_parts(resume, seconds_left, done, pace)
    while True:
        result = resume(done + max(1, int(0.95 * left / pace)), left)
        more = seconds_left()
        if result.stopped != "finished" or more < 0.15 * total or result.step == done:
            return result
        pace, done, left = (left - more) / (result.step - done), result.step, more


def _by_parts(
    resume: Callable[[int, float], Result], seconds_left: Callable[[], float], done: int, pace: float
) -> Result:
    """Train with a learning rate that decays to the last step, whose number is estimated again after each part.

    A last step that moves by a few percent hardly changes the learning rates before it. If the first steps seemed slow,
    the run reaches the last step early and continues.
    """
    total = left = seconds_left()
    while True:
        part = next(part for part in (*_PARTS, 1.0) if part * total > total - left or part == 1)
        stop = left if part == 1 else max(0.1, left - (1 - part) * total)
        result = resume(done + max(1, int(0.97 * left / pace)), stop)
        more = seconds_left()
        used_up = more < 0.15 * total if result.stopped == "finished" else part == 1
        if used_up or result.stopped not in ("finished", "minutes") or result.step == done:
            return result
        pace, done, left = (left - more) / (result.step - done), result.step, more


def _with_steps(settings: Settings, steps: int, checkpoint_every: int | None, held_out_rows: int) -> Settings:
    """Return settings for a number of steps, whose validations take about a tenth of the time of training."""
    evaluations = int(_VALIDATION_COST * steps * settings.batch_size)
    rows = min(max(_ROWS, evaluations // _VALIDATIONS), _MOST_ROWS, evaluations // _FEWEST_VALIDATIONS)
    rows = min(max(rows, 4 * settings.batch_size), max(1, held_out_rows))
    validations = min(max(evaluations // rows, _FEWEST_VALIDATIONS), _VALIDATIONS)
    every = max(100, steps // validations)
    if checkpoint_every is not None:
        # Only what has a checkpoint can be chosen by its validation.
        every = -(-every // checkpoint_every) * checkpoint_every
    return replace(
        settings,
        steps=steps,
        checkpoint_every=every if checkpoint_every is None else checkpoint_every,
        log_every=max(1, min(100, steps // 20)),
        validate_every=every,
        validation_rows=rows,
    )


def _seconds_per_step(recipe: Recipe, fabric: Fabric, accumulate: int) -> float:
    """Return the median time of a few steps on this rank's part of a batch, with a model that is then discarded."""
    data, _ = recipe.data()
    device = fabric.device
    generator = _device.new_generator(device, 0)
    with _device.fork_default_rng(device):
        model = recipe.model()
        model.reverse.to(device)
        optimizer = torch.optim.Adam(model.reverse.parameters(), fused=True)
        index = torch.arange(max(1, recipe.settings.batch_size // (fabric.world_size * accumulate))) % len(data)
        x0, missing, condition = data.batch(index, device)
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
            _device.synchronize(device)
            took.append(time.monotonic() - start)
    rest = sorted(took[1:])  # the first step also allocates and compiles
    return accumulate * rest[len(rest) // 2]
