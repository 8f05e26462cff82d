"""Trains one model of the music experiment, or goes on with it.

    python experiments/music/train.py uniform-ect --data FILE --steps 4000
    python experiments/music/train.py shipped --data FILE --steps 10000

FILE is described in songs.py. Each model has a folder of its own, runs/music/MODEL if --out is not given; a run that
was stopped goes on by the same command. The learning rate falls to the last of the --steps.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import songs
from models import NAMES, recipe

from tauleap.training import Run, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=NAMES)
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and the strict masks")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=None, help="stop earlier; the same command goes on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    made = recipe(arguments.model, songs.load(arguments.data))
    numbers = {"steps": arguments.steps, "decay": arguments.steps, "seed": arguments.seed}
    made = replace(made, settings=replace(made.settings, **numbers))
    out = arguments.out or Path("runs") / "music" / arguments.model
    result = train(made, Run(out, minutes=arguments.minutes, tensorboard=False, keep=2))
    print(f"{result.stopped} at step {result.step}: {result.checkpoint}")


if __name__ == "__main__":
    main()
