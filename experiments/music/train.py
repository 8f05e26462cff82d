"""Trains one model of the music experiment, or resumes it.

    python experiments/music/train.py uniform-ect --data FILE --steps 4000
    python experiments/music/train.py shipped --data FILE --steps 10000

FILE is described in songs.py. Each model has a folder of its own, runs/music/MODEL if --out is not given; a run that
was stopped is resumed by the same command. The learning rate falls to the last of the --steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

import songs
from models import NAMES, recipe

sys.path.append(str(Path(__file__).parents[1]))

from _script import train_one

if __name__ == "__main__":
    train_one(
        __doc__,
        NAMES,
        lambda name, data, _: recipe(name, songs.load(data)),
        runs=Path("runs") / "music",
        file=".npz with train, test and the strict masks",
    )
