"""The images of the experiment: MNIST, 28 x 28 with 256 levels, and a part of it to validate with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tauleap.data import Dataset, mnist

VALIDATION, SPLIT_SEED = 1000, 0


@dataclass(frozen=True)
class Pictures:
    """Images (n, 1, 28, 28), with digits as their conditions: to train with, to make choices with, and to report."""

    train: Dataset
    validation: Dataset
    test: Dataset

    def to_train(self) -> tuple[Dataset, Dataset]:
        """With the digits, and those to validate with without them: bits/dim is that of pictures alone."""
        return self.train, replace(self.validation, condition=None)


def load(path: Path) -> Pictures:
    """From a folder of idx files, or an .npz with x_train, y_train, x_test and y_test."""
    train, test = mnist(path)
    return Pictures(*train.split(VALIDATION, seed=SPLIT_SEED), test)
