"""Trains one model of the image experiment, or resumes it.

    python experiments/images/train.py early --data FILE
    python experiments/images/train.py late --data FILE
    python experiments/images/train.py gaussian --data FILE

FILE is described in pictures.py. Each model has a folder of its own, runs/images/MODEL if --out is not given; a run
that was stopped is resumed by the same command. The learning rate falls to the last of the --steps, those of models.py
if not given. gaussian and d3pm-gaussian begin with the weights of early and late, which must be in folders beside their
own. Two processes share a batch if they are started by torchrun:

    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 experiments/images/train.py late --data FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import pictures
from models import MODELS, recipe

sys.path.append(str(Path(__file__).parents[1]))

from _script import train_one

if __name__ == "__main__":
    train_one(
        __doc__,
        MODELS,
        lambda name, data, models: recipe(name, pictures.load(data), models),
        runs=Path("runs") / "images",
        file="a folder of idx files, or an .npz",
    )
