"""Images and labels in ``.npz`` files, and checks that the image datasets share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tauleap.data import limits
from tauleap.data.array.file import read_array, read_arrays
from tauleap.data.dataset import Dataset

LEVELS = 256
"""States of a pixel."""
_PARTS = ("train", "test")
_LABELS = ("y_{}", "labels_{}", "{}_labels")


def images_npz(path: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Return the training images and the test images of an ``.npz``, states 0..255 of (channels, height, width).

    Nothing is unpickled, and other arrays of the file are not read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "images.npz")
    ...     np.savez(path, x_train=np.zeros((5, 4, 4), np.uint8), x_test=np.zeros((2, 4, 4), np.uint8))
    ...     train, test = images_npz(path)
    >>> len(train), len(test), train.shape
    (5, 2, (1, 4, 4))

    Args:
        path: A file with the arrays ``x_train`` and ``x_test``: whole numbers 0..255 of shape (n, height, width),
            (n, height, width, channels) or (n, channels, height, width) with 1 or 3 channels. The labels ``y_train``
            and ``y_test`` (or ``labels_train``, or ``train_labels``) are optional.

    Returns:
        The training set and the test set. Labels become their ``condition``.

    Raises:
        ValueError: An array is absent, or has another shape or range.
    """
    path = Path(path)
    limits.size(path)
    names = {part: [name.format(part) for name in _LABELS] for part in _PARTS}
    arrays = read_arrays(path, ["x_train", "x_test", *names["train"], *names["test"]])
    missing = [f"x_{part}" for part in _PARTS if f"x_{part}" not in arrays]
    if missing:
        raise ValueError(
            f"{path} has no array {missing[0]}: write numpy.savez(path, x_train=..., x_test=...) with images "
            "(n, height, width) or (n, height, width, 3)"
        )
    labels = {part: next((arrays[name] for name in names[part] if name in arrays), None) for part in _PARTS}
    if (labels["train"] is None) != (labels["test"] is None):
        raise ValueError(
            f"{path} has labels for only one of x_train and x_test: save both y_train and y_test, or neither"
        )
    train, test = (
        _dataset(arrays[f"x_{part}"], labels[part], f"{path}: x_{part}", f"{path}: the labels of x_{part}")
        for part in _PARTS
    )
    if train.shape != test.shape:
        raise ValueError(
            f"{path} must have training and test images of the same shape, got {train.shape} in x_train and "
            f"{test.shape} in x_test"
        )
    return train, test


def read_images(path: Path, shape: tuple[int, ...]) -> tuple[Tensor, list[str]]:
    """Return the images of an ``.npz`` or ``.npy``, uint8 (n, *shape), and lines of a report.

    Args:
        path: An ``.npy``; or an ``.npz`` with the array ``x_test``, as for :func:`images_npz`, or else ``x``.
        shape: The expected shape (channels, height, width).

    Raises:
        ValueError: The array is absent, or has another shape or range.
    """
    if path.suffix.lower() == ".npy":
        array, where, report = read_array(path)[0], str(path), []
    else:
        arrays = read_arrays(path, ["x_test", "x"])
        if not arrays:
            raise ValueError(
                f"{path} has no array x_test or x: write numpy.savez(path, x=...) with images (n, height, width) or "
                "(n, height, width, 3)"
            )
        name = next(iter(arrays))
        array, where, report = (
            arrays[name],
            f"{path}: {name}",
            [f"read the array {name}: {len(arrays[name]):,} rows"],
        )
    x = torch.from_numpy(_channels_first(array, where))
    if tuple(x.shape[1:]) != shape:
        raise ValueError(f"{where} has images of shape {tuple(x.shape[1:])}, but the model takes {shape}")
    return x, report


def check_labels(labels: Tensor, where: str, *, classes: int) -> None:
    """Raise ValueError if a label is not in ``0 .. classes-1``.

    Args:
        labels: The labels, (n,).
        where: The name of the file or array in messages.
        classes: The number of classes.
    """
    wrong = ((labels < 0) | (labels >= classes)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"{where} has the label {int(labels[at])} for image {at}: labels must be 0..{classes - 1}")


def read_known_dataset(path: Path, shape: tuple[int, ...], *, classes: int, name: str) -> tuple[Dataset, Dataset]:
    """Read an ``.npz`` with :func:`images_npz`, and check that it has the shape and labels of a known dataset.

    Args:
        path: The file.
        shape: The expected shape (channels, height, width).
        classes: The number of classes.
        name: The name of the dataset in messages.
    """
    parts = images_npz(path)
    for data in parts:
        if data.shape != shape:
            raise ValueError(
                f"{path} has images of shape {data.shape}, but those of {name} have {shape}: "
                "read other images with tauleap.data.images_npz"
            )
        if data.condition is not None:
            check_labels(data.condition, str(path), classes=classes)
    return parts


def _dataset(images: np.ndarray, labels: np.ndarray | None, where: str, where_labels: str) -> Dataset:
    x = torch.from_numpy(_channels_first(images, where))
    condition = None
    if labels is not None:
        # Some programs save labels as a column.
        flat = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if flat.shape != (len(x),) or flat.dtype == bool:
            raise ValueError(
                f"{where_labels} must be {len(x)} whole numbers, one per image, got {labels.dtype} {labels.shape}"
            )
        condition = torch.from_numpy(flat.astype(np.int64))
    return Dataset(x, LEVELS, condition=condition)


def _channels_first(images: np.ndarray, where: str) -> np.ndarray:
    """Return images as uint8 (n, channels, height, width)."""
    if images.size == 0 or images.ndim not in (3, 4):
        raise ValueError(f"{where} must be images (n, height, width) or (n, height, width, 3), got {images.shape}")
    if images.dtype == bool or images.min() < 0 or images.max() >= LEVELS:
        raise ValueError(
            f"{where} must hold values 0..{LEVELS - 1}, got {images.dtype} from {images.min()} to {images.max()}"
        )
    if images.ndim == 3:
        images = images[:, None]
    else:
        first, last = (images.shape[axis] in (1, 3) for axis in (1, 3))
        if first == last:
            problem = (
                "axes 1 and 3 could both be the channels" if first else "neither axis 1 nor axis 3 has length 1 or 3"
            )
            raise ValueError(f"{where} must have 1 or 3 channels, got shape {images.shape}: {problem}")
        images = np.moveaxis(images, 3, 1) if last else images
    return np.ascontiguousarray(images, dtype=np.uint8)
