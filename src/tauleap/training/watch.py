"""Evaluate a model during training: bits/dim of held-out rows, and samples.

Both are computed in blocks, each with its own seed. The blocks are distributed over the ranks, so that the results do
not depend on the number of ranks.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _device
from tauleap._memory import default_batch_size
from tauleap._seeds import derive_seed
from tauleap.data import Dataset
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.sampling import TauLeaping, sample, uniform_grid
from tauleap.training.engine import Engine
from tauleap.training.ranks import in_blocks

_TIMES, _MANY_ROWS = 4, 1000
"""Draws of the noise per held-out row, where rows are few; with many rows, one draw for each of more rows is better."""
_STEPS = 100
_BLOCK_BYTES = 2.0**30
"""Memory per block. It does not depend on the machine, because the blocks decide which numbers are drawn."""


def held_out_bits(engine: Engine, data: Dataset) -> Estimate[float]:
    """Return bits/dim of the first ``validation_rows`` rows under the current model.

    The noise is the same in every validation of a run, so that the differences between its steps are those of the
    weights.

    Args:
        engine: the engine of the run.
        data: the held-out rows.
    """
    rows = min(engine.settings.validation_rows, len(data))
    blocks, size = _blocks(engine, rows)

    def block(number: int) -> Tensor:
        index = torch.arange(number * size, min((number + 1) * size, rows))
        generator = _generator(engine, "validation", number)
        batch = engine.batch(data, index, generator)
        estimate = bits_per_dim(
            engine.model.reverse,
            batch.x0,
            samples=1 if rows >= _MANY_ROWS else _TIMES,
            batch_size=size,
            per_datapoint=True,
            observed=batch.observed,
            missing=batch.missing,
            condition=batch.condition,
            generator=generator,
        )
        device = _device.exact_device(engine.fabric.device)
        out = torch.full((size,), math.nan, dtype=torch.float64, device=device)
        out[: len(index)] = estimate.value
        return out

    return Estimate.of_mean(in_blocks(engine.fabric, blocks, block).flatten()[:rows])


def draw_samples(engine: Engine, step: int) -> Tensor:
    """Return ``settings.samples`` samples, drawn by tau-leaping with 100 steps.

    Args:
        engine: the engine of the run.
        step: the number of the step, which decides the noise.
    """
    samples = engine.settings.samples
    blocks, size = _blocks(engine, samples)

    def block(number: int) -> Tensor:
        drawn = sample(
            engine.model.reverse,
            TauLeaping(),
            (blocks * size, *engine.data.shape),
            grid=uniform_grid(_STEPS),
            batch_size=size,
            blocks=[number],
            generator=_generator(engine, "samples", step),
        )
        return drawn.x0

    return in_blocks(engine.fabric, blocks, block).flatten(0, 1)[:samples].cpu()


def _blocks(engine: Engine, number: int) -> tuple[int, int]:
    """Return the number of blocks and their size, so that the logits of one block fit into memory."""
    entries = math.prod(engine.data.shape) * engine.model.num_states
    blocks = math.ceil(number / default_batch_size(_device.CPU, entries, memory=_BLOCK_BYTES))
    return blocks, math.ceil(number / blocks)


def _generator(engine: Engine, *words: int | str) -> torch.Generator:
    return _device.new_generator(engine.fabric.device, derive_seed(engine.settings.seed, *words))
