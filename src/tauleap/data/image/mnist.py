"""MNIST (LeCun, Cortes and Burges): handwritten digits, 28 x 28 with 256 levels.

Fashion-MNIST and Kuzushiji-MNIST have the same format and file names, so the same function reads them. The package
neither contains nor downloads the files: users get them from the publishers.
"""

from __future__ import annotations

import os
from pathlib import Path

from tauleap.data.dataset import Dataset
from tauleap.data.image.idx import read_idx
from tauleap.data.image.npz import LEVELS, check_labels, read_known_dataset

SHAPE = (1, 28, 28)
CLASSES = 10
_FILES = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"


def mnist(folder: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Return the training images and the test images of MNIST, (1, 28, 28), with their class labels.

    Fashion-MNIST and Kuzushiji-MNIST have the same format.

    >>> train, test = mnist("mnist")  # doctest: +SKIP

    Args:
        folder: The folder of the four idx files ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``,
            ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``, each with or without ``.gz``; or an ``.npz``
            with the arrays that :func:`tauleap.data.images_npz` reads.

    Returns:
        The training set and the test set. States are 0 (white) to 255 (black), and ``condition`` is the label 0..9.

    Raises:
        ValueError: A file is absent or damaged, or its images or labels have another shape.
    """
    path = Path(folder)
    if path.suffix.lower() == ".npz":
        return read_known_dataset(path, SHAPE, classes=CLASSES, name="MNIST")
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "does not exist"
        raise ValueError(f"{path} {problem}: give the folder that has {_FILES}, or an .npz")
    return _part(path, "train"), _part(path, "t10k")


def is_mnist(path: Path) -> bool:
    """Return whether a folder contains the training images of MNIST.

    Args:
        path: The folder.
    """
    return path.is_dir() and _find(path, "train-images", axes=3) is not None


def _part(folder: Path, part: str) -> Dataset:
    files = []
    for content, axes in (("images", 3), ("labels", 1)):
        file = _find(folder, f"{part}-{content}", axes=axes)
        if file is None:
            raise ValueError(f"{folder} has no {part}-{content}-idx{axes}-ubyte or {part}-{content}-idx{axes}-ubyte.gz")
        files.append(file)
    images, labels = (read_idx(file) for file in files)
    if images.ndim != 3 or images.shape[1:] != SHAPE[1:]:
        raise ValueError(f"{files[0]} must hold images of {SHAPE[1:]}, got shape {tuple(images.shape)}")
    if labels.shape != (len(images),):
        raise ValueError(f"{files[1]} must hold {len(images)} labels, one per image, got shape {tuple(labels.shape)}")
    check_labels(labels, str(files[1]), classes=CLASSES)
    return Dataset(images[:, None], LEVELS, condition=labels.long())


def _find(folder: Path, name: str, *, axes: int) -> Path | None:
    """Return the file of a name, or None."""
    # Some programs unpack train-images-idx3-ubyte.gz as train-images.idx3-ubyte.
    names = (f"{name}{mark}idx{axes}-ubyte{end}" for end in ("", ".gz") for mark in "-.")
    return next((folder / file for file in names if (folder / file).is_file()), None)
