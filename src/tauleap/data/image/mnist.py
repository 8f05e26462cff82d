"""MNIST (LeCun, Cortes and Burges): handwritten digits, 28 x 28 with 256 shades.

Fashion-MNIST and Kuzushiji-MNIST have the same format and the same names of files, so they are read by the same
function. The files are not in the package, and are not downloaded: get them from where the set is published.
"""

from __future__ import annotations

import os
from pathlib import Path

from tauleap.data.dataset import Dataset
from tauleap.data.image.idx import read_idx
from tauleap.data.image.npz import SHADES, check_labels, of_shape

SHAPE = (1, 28, 28)
CLASSES = 10
_WANTED = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte"


def mnist(folder: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Return images (1, 28, 28) to train and to test with, of states 0 (paper) to 255 (ink); ``condition`` is the
    label.

    Args:
        folder: holds the four idx files ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``,
            ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``, each with or without ``.gz``; or is an ``.npz``
            with the arrays that :func:`tauleap.data.images_npz` reads.

    Fashion-MNIST and Kuzushiji-MNIST have the same format.
    """
    path = Path(folder)
    if path.suffix.lower() == ".npz":
        return of_shape(path, SHAPE, classes=CLASSES, name="MNIST")
    if not path.is_dir():
        why = "is not a folder" if path.exists() else "does not exist"
        raise ValueError(f"{path} {why}: give the folder that holds {_WANTED}, or an .npz")
    return _part(path, "train"), _part(path, "t10k")


def is_mnist(path: Path) -> bool:
    """Return whether a folder holds the images to train with.

    Args:
        path: The folder.
    """
    return path.is_dir() and _find(path, "train-images", axes=3) is not None


def _part(folder: Path, part: str) -> Dataset:
    files = []
    for what, axes in (("images", 3), ("labels", 1)):
        file = _find(folder, f"{part}-{what}", axes=axes)
        if file is None:
            raise ValueError(f"{folder} has no {part}-{what}-idx{axes}-ubyte or {part}-{what}-idx{axes}-ubyte.gz")
        files.append(file)
    images, labels = (read_idx(file) for file in files)
    if images.ndim != 3 or images.shape[1:] != SHAPE[1:]:
        raise ValueError(f"{files[0]} must hold images of {SHAPE[1:]}, got shape {tuple(images.shape)}")
    if labels.shape != (len(images),):
        raise ValueError(
            f"{files[1]} must hold a label for each of {len(images)} images, got shape {tuple(labels.shape)}"
        )
    check_labels(labels, str(files[1]), classes=CLASSES)
    return Dataset(images[:, None], SHADES, condition=labels.long())


def _find(folder: Path, name: str, *, axes: int) -> Path | None:
    """Some programs unpack ``train-images-idx3-ubyte.gz`` as ``train-images.idx3-ubyte``."""
    names = (f"{name}{mark}idx{axes}-ubyte{end}" for end in ("", ".gz") for mark in "-.")
    return next((folder / file for file in names if (folder / file).is_file()), None)
