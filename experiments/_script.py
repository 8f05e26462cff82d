"""Shared functions of the experiments: train one model from the command line, run other scripts."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from tauleap.training import Recipe, Run, train


def train_one(
    description: str, names: Collection[str], recipe: Callable[[str, Path, Path], Recipe], *, runs: Path, file: str
) -> None:
    """Train or resume the model that the command line ``MODEL --data FILE --steps N`` names.

    Args:
        description: The help text; its first line is shown.
        names: The names of the models.
        recipe: A function of the name, the data and the folder of the other models, which returns a recipe.
        runs: The folder in which the model gets its own folder, unless --out names another.
        file: The help text of --data.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("model", choices=names)
    parser.add_argument("--data", type=Path, required=True, help=file)
    parser.add_argument(
        "--steps",
        type=int,
        default=None,
        help="number of steps, also the horizon of the learning-rate decay. Default: that of the recipe",
    )
    parser.add_argument(
        "--minutes", type=float, default=None, help="stop after this time; run the same command again to resume"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    out = options.out or runs / options.model
    chosen = recipe(options.model, options.data, out.parent)
    steps = chosen.settings.steps if options.steps is None else options.steps
    if steps <= chosen.settings.warmup:
        parser.error(f"--steps must be more than the {chosen.settings.warmup} steps of the warm-up, got {steps}")
    chosen = replace(chosen, settings=replace(chosen.settings, steps=steps, decay=steps, seed=options.seed))
    result = train(chosen, Run(out, minutes=options.minutes, tensorboard=False, keep=2))
    print(f"{result.stopped} at step {result.step}: {result.checkpoint}")


def run(script: Path, *arguments: str) -> None:
    """Run another script with one thread, and wait until it ends."""
    subprocess.run([sys.executable, str(script), *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
