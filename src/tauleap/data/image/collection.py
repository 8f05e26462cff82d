"""Image datasets that are recognised by the names of their files: idx files, MNIST and CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tauleap.data.image.cifar import cifar10, is_batch, is_cifar, read_batch
from tauleap.data.image.idx import is_idx, read_idx
from tauleap.data.image.mnist import is_mnist, mnist


class Collection(NamedTuple):
    """Hold images, uint8 (n, channels, height, width), and a text about the contents that were not read."""

    images: Tensor
    left_out: str | None = None


def is_collection(path: Path) -> bool:
    """Return whether a file or folder has the name of one of these datasets.

    Args:
        path: The file or folder.
    """
    return any(matches(path) for matches in (is_idx, is_batch, is_mnist, is_cifar))


def read_collection(path: Path) -> Collection:
    """Return the images of one file, or the training images of a dataset that has a test set.

    Args:
        path: A file or folder for which :func:`is_collection` is true.
    """
    if is_idx(path):
        images = read_idx(path)
        if images.ndim != 3:
            raise ValueError(
                f"{path} must hold images (n, height, width), got shape {tuple(images.shape)}: "
                "give the file of the images instead of the labels"
            )
        return Collection(images[:, None])
    if is_batch(path):
        return Collection(read_batch(path), "labels")
    train, test = (mnist if is_mnist(path) else cifar10)(path)
    return Collection(train.in_memory(), f"labels, and {len(test)} test images")
