"""Many pictures in one file or folder of known names: idx files, and CIFAR-10."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from tauleap.data.cifar import is_cifar, training_pictures
from tauleap.data.idx import is_idx, read_idx
from tauleap.data.mnist import is_mnist, training_images


def packed_pictures(path: Path) -> Tensor | None:
    """Bytes (n, channels, height, width) without labels; None for what is of another kind.

    Of a set with pictures to train and to test with it is those to train with.
    """
    if is_idx(path):
        pictures = read_idx(path)
        if pictures.ndim != 3:
            raise ValueError(
                f"{path} must hold pictures (n, height, width), got shape {tuple(pictures.shape)}: "
                "give the file of the images, not that of the labels"
            )
        return pictures[:, None]
    if is_mnist(path):
        return training_images(path)
    return training_pictures(path) if is_cifar(path) else None
