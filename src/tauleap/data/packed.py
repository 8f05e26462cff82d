"""Many pictures in one file or folder of known names: idx files, and CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tauleap.data.cifar import cifar10 as read_cifar
from tauleap.data.cifar import is_batch, is_cifar, read_batch
from tauleap.data.idx import is_idx, read_idx
from tauleap.data.mnist import is_mnist
from tauleap.data.mnist import mnist as read_mnist


class Packed(NamedTuple):
    """Bytes (n, channels, height, width), and what else there is and was not taken."""

    pictures: Tensor
    left_out: str | None = None


def packed_pictures(path: Path) -> Packed | None:
    """The pictures in one file, or those to train with of a set that has others to test with; None for other kinds."""
    if is_idx(path):
        pictures = read_idx(path)
        if pictures.ndim != 3:
            raise ValueError(
                f"{path} must hold pictures (n, height, width), got shape {tuple(pictures.shape)}: "
                "give the file of the images, not that of the labels"
            )
        return Packed(pictures[:, None])
    if is_batch(path):
        return Packed(read_batch(path), "labels")
    if is_mnist(path) or is_cifar(path):
        train, test = (read_mnist if is_mnist(path) else read_cifar)(path)
        return Packed(train.in_memory(), f"labels, and {len(test)} pictures to test with")
    return None
