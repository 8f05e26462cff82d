"""Train one model of the image experiment, or resume its run.

    python experiments/images/train.py early --data FILE
    python experiments/images/train.py late --data FILE
    python experiments/images/train.py gaussian --data FILE

FILE is described in pictures.py. Each model has its own folder, runs/images/MODEL unless --out names another. Run the
same command again to resume. The learning rate decays until the last of the --steps, by default those of models.py.
gaussian and d3pm-gaussian start from the weights of early and late, which must be in folders beside theirs. Two
processes share a batch if torchrun starts them:

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
