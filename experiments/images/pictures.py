"""The images of the experiment: MNIST, 28 x 28 with 256 levels, and a part of it to validate with.

The file is an .npz with ``x_train`` and ``x_test``, bytes (n, 28, 28), and the digits ``y_train`` and ``y_test``, which
the classifier alone is told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from tauleap.data import Dataset

VALIDATION, SPLIT_SEED = 1000, 0
LEVELS = 256


@dataclass(frozen=True)
class Pictures:
    """Images (n, 1, 28, 28), with digits as their conditions: to train with, to make choices with, and to report."""

    train: Dataset
    validation: Dataset
    test: Dataset

    def to_train(self) -> tuple[Dataset, Dataset]:
        """Without the digits."""
        return replace(self.train, condition=None), replace(self.validation, condition=None)


def load(path: Path) -> Pictures:
    with np.load(path, allow_pickle=False) as arrays:
        train, test = (
            Dataset(
                torch.from_numpy(arrays[f"x_{part}"])[:, None],
                LEVELS,
                condition=torch.from_numpy(arrays[f"y_{part}"]).long(),
            )
            for part in ("train", "test")
        )
    return Pictures(*train.split(VALIDATION, seed=SPLIT_SEED), test)
