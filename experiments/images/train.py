"""Trains one model of the image experiment, or goes on with it.

    python experiments/images/train.py gaussian --data FILE --steps 4000

FILE is described in pictures.py. Each model has a folder of its own, runs/images/MODEL if --out is not given; a run
that was stopped goes on by the same command. The learning rate falls to the last of the --steps.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pictures
from models import MODELS, recipe

from tauleap.training import Run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=None, help="stop earlier; the same command goes on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    made = recipe(arguments.model, pictures.load(arguments.data), arguments.steps)
    made = replace(made, settings=replace(made.settings, seed=arguments.seed))
    out = arguments.out or Path("runs") / "images" / arguments.model
    result = train(made, Run(out, minutes=arguments.minutes, tensorboard=False, keep=2))
    print(f"{result.stopped} at step {result.step}: {result.checkpoint}")


if __name__ == "__main__":
    main()
