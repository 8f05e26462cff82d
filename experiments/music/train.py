"""Train one model of the music experiment, or resume its run.

    python experiments/music/train.py uniform-ect --data FILE --steps 4000
    python experiments/music/train.py shipped --data FILE --steps 10000

FILE is described in songs.py. Each model has its own folder, runs/music/MODEL unless --out names another. Run the same
command again to resume. The learning rate decays until the last of the --steps.
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
