"""Many pictures in one file or folder with a name of its own: idx files, MNIST and CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tauleap.data.image.cifar import cifar10, is_batch, is_cifar, read_batch
from tauleap.data.image.idx import is_idx, read_idx
from tauleap.data.image.mnist import is_mnist, mnist


class Collection(NamedTuple):
    """Bytes (n, channels, height, width), and what else there is and was not read."""

    pictures: Tensor
    left_out: str | None = None


def is_collection(path: Path) -> bool:
    """Return whether a file or folder has the name of one of these collections.

    Args:
        path: The file or folder.
    """
    return any(matches(path) for matches in (is_idx, is_batch, is_mnist, is_cifar))


def read_collection(path: Path) -> Collection:
    """Return the pictures in one file, or those to train with of a dataset that has others to test with.

    Args:
        path: A file or folder for which :func:`is_collection` is true.
    """
    if is_idx(path):
        pictures = read_idx(path)
        if pictures.ndim != 3:
            raise ValueError(
                f"{path} must hold pictures (n, height, width), got shape {tuple(pictures.shape)}: "
                "give the file of the images, not that of the labels"
            )
        return Collection(pictures[:, None])
    if is_batch(path):
        return Collection(read_batch(path), "labels")
    train, test = (mnist if is_mnist(path) else cifar10)(path)
    return Collection(train.in_memory(), f"labels, and {len(test)} pictures to test with")
