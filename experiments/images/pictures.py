"""The images of the experiment: MNIST, 28 x 28 with 256 levels, with part of it for validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tauleap.data import Dataset, mnist

VALIDATION, SPLIT_SEED = 1000, 0


@dataclass(frozen=True)
class Pictures:
    """Training, validation and test images (n, 1, 28, 28), with digits as their conditions."""

    train: Dataset
    validation: Dataset
    test: Dataset

    def to_train(self) -> tuple[Dataset, Dataset]:
        """Return the training images with labels, and the validation images without, for unconditional bits/dim."""
        return self.train, replace(self.validation, condition=None)


def load(path: Path) -> Pictures:
    """Read a folder of idx files, or an .npz with x_train, y_train, x_test and y_test."""
    train, test = mnist(path)
    return Pictures(*train.split(VALIDATION, seed=SPLIT_SEED), test)
