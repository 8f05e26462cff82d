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
    """``MODEL --data FILE --steps N``: trains one of the ``names``, or resumes it.

    The learning rate falls to the last of the steps; the model has a folder of its own in ``runs``, if none is given.
    ``recipe`` makes one of the name, the data, and the folder in which the other models are.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("model", choices=names)
    parser.add_argument("--data", type=Path, required=True, help=file)
    parser.add_argument("--steps", type=int, default=None, help="those of the recipe, if not given")
    parser.add_argument("--minutes", type=float, default=None, help="stop earlier; the same command resumes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    out = given.out or runs / given.model
    made = recipe(given.model, given.data, out.parent)
    steps = made.settings.steps if given.steps is None else given.steps
    if steps <= made.settings.warmup:
        parser.error(f"--steps must be more than the {made.settings.warmup} of the warm-up, got {steps}")
    made = replace(made, settings=replace(made.settings, steps=steps, decay=steps, seed=given.seed))
    result = train(made, Run(out, minutes=given.minutes, tensorboard=False, keep=2))
    print(f"{result.stopped} at step {result.step}: {result.checkpoint}")


def run(script: Path, *arguments: str) -> None:
    """Another script, with one thread, to its end."""
    subprocess.run([sys.executable, str(script), *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True)
