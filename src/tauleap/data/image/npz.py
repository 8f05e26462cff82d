"""Pictures with labels, to train and to test with: what the sets of this kind have in common."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tauleap.data import limits
from tauleap.data.array.file import read_array, read_arrays
from tauleap.data.dataset import Dataset

SHADES = 256
_PARTS = ("train", "test")
_LABELS = ("y_{}", "labels_{}", "{}_labels")


def images_npz(path: str | os.PathLike[str]) -> tuple[Dataset, Dataset]:
    """Return the pictures of an ``.npz`` to train and to test with, shades 0..255 of shape (channels, height, width).

    Args:
        path: a file with the arrays ``x_train`` and ``x_test``: whole numbers 0..255 of shape (n, height, width),
            (n, height, width, channels) or (n, channels, height, width) with 1 or 3 channels. Labels, where there are
            any, are ``y_train`` and ``y_test`` (or ``labels_train``, or ``train_labels``), and become ``condition``.

    Nothing is unpickled, and other arrays of the file are not looked at.
    """
    path = Path(path)
    limits.size(path)
    names = {part: [name.format(part) for name in _LABELS] for part in _PARTS}
    arrays = read_arrays(path, ["x_train", "x_test", *names["train"], *names["test"]])
    absent = [f"x_{part}" for part in _PARTS if f"x_{part}" not in arrays]
    if absent:
        raise ValueError(
            f"{path} has no array {absent[0]}: write numpy.savez(path, x_train=..., x_test=...) with pictures "
            "(n, height, width) or (n, height, width, 3)"
        )
    labels = {part: next((arrays[name] for name in names[part] if name in arrays), None) for part in _PARTS}
    if (labels["train"] is None) != (labels["test"] is None):
        raise ValueError(f"{path} has labels for one of x_train and x_test: save y_train and y_test, or neither")
    train, test = (
        _dataset(arrays[f"x_{part}"], labels[part], f"{path}: x_{part}", f"{path}: the labels of x_{part}")
        for part in _PARTS
    )
    if train.shape != test.shape:
        raise ValueError(f"{path} has pictures of shape {train.shape} in x_train and {test.shape} in x_test")
    return train, test


def pictures_in(path: Path, shape: tuple[int, ...]) -> tuple[Tensor, list[str]]:
    """Return pictures of an ``.npz`` or ``.npy``, (n, *shape) bytes, and lines for the user.

    Args:
        path: An ``.npy``; or an ``.npz`` with the array ``x_test``, as for :func:`images_npz`, or else ``x``.
        shape: (channels, height, width).
    """
    if path.suffix.lower() == ".npy":
        array, where, report = read_array(path)[0], str(path), []
    else:
        arrays = read_arrays(path, ["x_test", "x"])
        if not arrays:
            raise ValueError(
                f"{path} has no array x_test or x: write numpy.savez(path, x=...) with pictures (n, height, width) or "
                "(n, height, width, 3)"
            )
        name = next(iter(arrays))
        array, where, report = (
            arrays[name],
            f"{path}: {name}",
            [f"the array {name} is taken: {len(arrays[name]):,} rows"],
        )
    x = torch.from_numpy(_channels_first(array, where))
    if tuple(x.shape[1:]) != shape:
        raise ValueError(f"{where} has pictures of shape {tuple(x.shape[1:])}, what is wanted is {shape}")
    return x, report


def check_labels(labels: Tensor, where: str, *, classes: int) -> None:
    """Raise ValueError where a label is not in ``0 .. classes-1``.

    Args:
        labels: The labels, (n,).
        where: Their place in messages.
        classes: How many classes there are.
    """
    wrong = ((labels < 0) | (labels >= classes)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"{where} has the label {int(labels[at])} at picture {at}: labels are 0..{classes - 1}")


def of_shape(path: Path, shape: tuple[int, ...], *, classes: int, name: str) -> tuple[Dataset, Dataset]:
    """Return what :func:`images_npz` reads, if it has the shape and labels of a known dataset.

    Args:
        path: The file.
        shape: (channels, height, width).
        classes: How many classes there are.
        name: The name of the dataset in messages.
    """
    parts = images_npz(path)
    for data in parts:
        if data.shape != shape:
            raise ValueError(
                f"{path} has pictures of shape {data.shape}, those of {name} have {shape}: "
                "read others by tauleap.data.images_npz"
            )
        if data.condition is not None:
            check_labels(data.condition, str(path), classes=classes)
    return parts


def _dataset(pictures: np.ndarray, labels: np.ndarray | None, where: str, where_labels: str) -> Dataset:
    x = torch.from_numpy(_channels_first(pictures, where))
    condition = None
    if labels is not None:
        # Some save them as a column.
        flat = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if flat.shape != (len(x),) or flat.dtype == bool:
            raise ValueError(f"{where_labels} must be {len(x)} whole numbers, got {labels.dtype} {labels.shape}")
        condition = torch.from_numpy(flat.astype(np.int64))
    return Dataset(x, SHADES, condition=condition)


def _channels_first(pictures: np.ndarray, where: str) -> np.ndarray:
    """Bytes (n, channels, height, width)."""
    if pictures.size == 0 or pictures.ndim not in (3, 4):
        raise ValueError(f"{where} must be pictures (n, height, width) or (n, height, width, 3), got {pictures.shape}")
    if pictures.dtype == bool or pictures.min() < 0 or pictures.max() >= SHADES:
        raise ValueError(
            f"{where} must hold shades 0..{SHADES - 1}, got {pictures.dtype} from {pictures.min()} to {pictures.max()}"
        )
    if pictures.ndim == 3:
        pictures = pictures[:, None]
    else:
        first, last = (pictures.shape[axis] in (1, 3) for axis in (1, 3))
        if first == last:
            why = "either axis may be that of the channels" if first else "no axis has 1 or 3 channels"
            raise ValueError(f"{where} must have 1 or 3 channels, got shape {pictures.shape}, in which {why}")
        pictures = np.moveaxis(pictures, 3, 1) if last else pictures
    return np.ascontiguousarray(pictures, dtype=np.uint8)
