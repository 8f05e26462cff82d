"""As many steps as there is time for, with looks at held-out rows on the way."""

from __future__ import annotations

import math
import time
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

_LOOKS = 8
KEEP = _LOOKS + 2
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
    """Train for ``steps``, or for as many as there is time for.

    The first rank reads the clock, and all ranks follow it.

    Args:
        end: when to stop, as ``time.monotonic()`` has it.
        recipe: what to train; how often it is validated follows from the steps.
        steps: where to stop, if not only by the time.
        run: where, and on which devices. Steps that were made in its folder before do not count.
        fabric: the processes that ``run`` has started.
        console: where progress shows.
        checkpoint_every: steps between checkpoints; by default there is one for each validation.
    """

    def seconds_left() -> float:
        return fabric.broadcast(end - time.monotonic())

    def resume(steps: int, left: float) -> Result:
        limited = replace(run, minutes=None if math.isinf(left) else max(left, 0.1) / 60)
        settings = _with_steps(recipe.settings, steps, checkpoint_every)
        return train(replace(recipe, settings=settings), limited, console=console, fabric=fabric)

    if steps is not None:
        return resume(steps, seconds_left())
    done = fabric.broadcast(Checkpoints(run.folder, run.keep).last_step())
    # A few steps tell the pace badly on a busy machine, so it is looked at again when the first estimate is done.
    pace = largest(fabric, [round(1e6 * _seconds_a_step(recipe, fabric, run.accumulate))])[0] / 1e6
    total = left = seconds_left()
    while True:
        result = resume(done + max(1, int(0.95 * left / pace)), left)
        more = seconds_left()
        if result.stopped != "finished" or more < 0.15 * total or result.step == done:
            return result
        pace, done, left = (left - more) / (result.step - done), result.step, more


def _with_steps(settings: Settings, steps: int, checkpoint_every: int | None) -> Settings:
    every = max(100, steps // _LOOKS)
    if checkpoint_every is not None:
        # Only what has a checkpoint can be chosen by its validation.
        every = -(-every // checkpoint_every) * checkpoint_every
    return replace(
        settings,
        steps=steps,
        checkpoint_every=every if checkpoint_every is None else checkpoint_every,
        log_every=max(1, min(100, steps // 20)),
        validate_every=every,
        validation_rows=4 * settings.batch_size,
    )


def _seconds_a_step(recipe: Recipe, fabric: Fabric, accumulate: int) -> float:
    """Measure a few steps of this rank's part of a batch, on a model that is thrown away."""
    data, _ = recipe.data()
    device = fabric.device
    generator = torch.Generator(_device.generator_device(device)).manual_seed(0)
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
    rest = sorted(took[1:])  # the first time there is more to do
    return accumulate * rest[len(rest) // 2]
