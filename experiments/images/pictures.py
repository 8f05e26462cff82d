"""The images of the experiment: MNIST, 28 x 28 with 256 levels, and a part of it to validate with.

The file is an .npz with ``x_train`` and ``x_test``, bytes (n, 28, 28).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tauleap.data import Dataset

VALIDATION, SPLIT_SEED = 1000, 0
LEVELS = 256


@dataclass(frozen=True)
class Pictures:
    """Images (n, 1, 28, 28): to train with, to make choices with, and to report."""

    train: Dataset
    validation: Dataset
    test: Dataset

    def to_train(self) -> tuple[Dataset, Dataset]:
        return self.train, self.validation


def load(path: Path) -> Pictures:
    with np.load(path, allow_pickle=False) as arrays:
        train, test = (Dataset(torch.from_numpy(arrays[name])[:, None], LEVELS) for name in ("x_train", "x_test"))
    return Pictures(*train.split(VALIDATION, seed=SPLIT_SEED), test)
