"""CIFAR-10 (Krizhevsky 2009): 60,000 colour images of ten classes, 32 x 32 with 256 levels (Section 6.2).

The binary version is read: a record is a label and 3,072 bytes, the red, green and blue channels. The archive is opened
after its checksum was verified. The Python version consists of pickles, which can run code, and is rejected.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tauleap import _formats
from tauleap._files import safe_read
from tauleap.data import download as downloads
from tauleap.data import limits
from tauleap.data.dataset import Dataset
from tauleap.data.image.npz import LEVELS, check_labels, read_known_dataset

SHAPE = (3, 32, 32)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The names of the labels 0..9."""

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"
_TRAIN, _TEST = _formats.CIFAR_TRAIN, _formats.CIFAR_TEST
_URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"  # The authors publish the MD5 c32a1d4a...
_MAX_PACKED_BYTES = 2**28  # The archive has 170,052,171 bytes.
_MAX_UNPACKED_BYTES = 2**28  # Its files have about 184,400,000 bytes.
_RECORDS = 10_000  # per file
_PIXEL_BYTES = 3072  # per record
_PYTHON_NAME = "cifar-10-python"
_PICKLES = (
    "is the Python version of CIFAR-10, whose pickles can run code: download the binary version, "
    f"{ARCHIVE}, from {_URL}"
)


def cifar10(path: str | os.PathLike[str] | None = None, *, download: bool = False) -> tuple[Dataset, Dataset]:
    """Return CIFAR-10: 50,000 training images and 10,000 test images, (3, 32, 32), with their class labels.

    >>> train, test = cifar10(download=True)  # doctest: +SKIP

    Args:
        path: The archive ``cifar-10-binary.tar.gz`` with the published checksum, which is read without unpacking it to
            disk; or its folder ``cifar-10-batches-bin``; or an ``.npz`` with the arrays that
            :func:`tauleap.data.images_npz` reads. Default: the archive that was downloaded before.
        download: Whether to download the archive (170 MB) from its authors if it is not in the cache, which is
            ``$TAULEAP_CACHE``, or the folder tauleap in ``$XDG_CACHE_HOME`` or ``~/.cache``. Default: False.

    Returns:
        The training set and the test set. Their ``condition`` is the label 0..9, whose names are in
        ``tauleap.data.image.cifar.CLASSES``.

    Raises:
        ValueError: The files are absent, damaged, or the Python version of CIFAR-10.
        OSError: The download failed.
    """
    if path is None:
        cached = downloads.cache_folder() / ARCHIVE
        if download:
            downloads.fetch(_URL, cached, sha256=_SHA256, max_bytes=_MAX_PACKED_BYTES)
        elif not cached.is_file():
            raise ValueError(f"{cached} does not exist: write download=True, or give the path of {ARCHIVE}")
        path = cached
    elif download:
        raise ValueError(f"got the path {path} and download=True: write only one of them")
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist: write download=True, or give the path of {ARCHIVE} or {FOLDER}")
    if path.suffix.lower() == ".npz":
        return read_known_dataset(path, SHAPE, classes=len(CLASSES), name="CIFAR-10")
    read = _in_folder(_folder(path)) if path.is_dir() else _in_archive(path)
    with closing(read) as contents:
        x, labels = _images(contents, (*_TRAIN, *_TEST), path)
    train_rows = _RECORDS * len(_TRAIN)
    parts = (slice(train_rows), slice(train_rows, None))
    train, test = (Dataset(x[part], LEVELS, condition=labels[part]) for part in parts)
    return train, test


def is_cifar(path: Path) -> bool:
    """Return whether a file is a tar archive, or a folder has the files of either version of CIFAR-10.

    Args:
        path: The file or folder.
    """
    if path.is_dir():
        return any((path / name).is_file() for name in (_TRAIN[0], _pickled(_TRAIN[0])))
    return path.is_file() and path.name.lower().endswith(_formats.ARCHIVES)


def is_batch(path: Path) -> bool:
    """Return whether a file has the name of one of the six files in the archive.

    Args:
        path: The file.
    """
    return path.is_file() and path.name in (*_TRAIN, *_TEST)


def read_batch(path: Path) -> Tensor:
    """Return the images of one file of the archive, uint8 (n, 3, 32, 32).

    Args:
        path: The file.
    """
    return _images([(path.name, _file(path))], (path.name,), path.parent)[0]


def _images(contents: Iterable[tuple[str, bytes]], names: Sequence[str], path: Path) -> tuple[Tensor, Tensor]:
    """Return the images and labels of the files ``names``, in this order."""
    x = np.empty((len(names), _RECORDS, _PIXEL_BYTES), dtype=np.uint8)
    labels = np.empty((len(names), _RECORDS), dtype=np.int64)
    unread = set(names)
    for name, content in contents:
        if name not in unread:
            raise ValueError(f"{path} contains {name} twice: download {ARCHIVE} from {_URL}")
        unread.remove(name)
        place = names.index(name)
        records = np.frombuffer(content, dtype=np.uint8).reshape(_RECORDS, 1 + _PIXEL_BYTES)
        labels[place], x[place] = records[:, 0], records[:, 1:]
        check_labels(torch.from_numpy(labels[place]), f"{path}: {name}", classes=len(CLASSES))
    if unread:
        raise ValueError(f"{path} has no {min(unread)}: give {ARCHIVE}, or its folder {FOLDER}")
    return torch.from_numpy(x.reshape(-1, *SHAPE)), torch.from_numpy(labels.reshape(-1))


def _in_folder(path: Path) -> Generator[tuple[str, bytes], None, None]:
    for name in (*_TRAIN, *_TEST):
        if (path / name).exists():
            yield name, _file(path / name)
        elif (path / _pickled(name)).exists():
            raise ValueError(f"{path} {_PICKLES}")


def _folder(path: Path) -> Path:
    """Return the folder of the files: ``path`` itself, or the folder in it that the archive unpacks to."""
    return path / FOLDER if (path / FOLDER).is_dir() else path


def _pickled(name: str) -> str:
    return name.removesuffix(".bin")


def _file(path: Path) -> bytes:
    _check_size(limits.size(path, _MAX_UNPACKED_BYTES), str(path))
    return safe_read.read_bytes(path, most=_MAX_UNPACKED_BYTES)


def _check_size(size: int, where: str) -> None:
    expected = _file_bytes()
    if size != expected:
        raise ValueError(
            f"{where} is damaged: it must have {expected:,} bytes, {_RECORDS:,} images with labels, got {size:,}"
        )


def _in_archive(path: Path) -> Generator[tuple[str, bytes], None, None]:
    limits.size(path, _MAX_PACKED_BYTES)
    if path.name.startswith(_PYTHON_NAME):
        raise ValueError(f"{path} {_PICKLES}")
    # The checksum comes first, since a forged header can make tarfile run forever or allocate any memory.
    found = downloads.sha256_of(path)
    if found != _SHA256:
        raise ValueError(
            f"{path} is damaged, or is not {ARCHIVE} as its authors publish it: its SHA-256 is {found}, not {_SHA256}: "
            f"download it from {_URL}, or unpack it and give the folder {FOLDER}"
        )
    try:
        with tarfile.open(path) as archive:
            for entry in archive:
                folder, _, name = entry.name.removeprefix("./").rpartition("/")
                if folder != FOLDER or name not in (*_TRAIN, *_TEST):
                    continue
                _check_size(entry.size, f"{path}: {name}")
                content = archive.extractfile(entry) if entry.isfile() else None
                if content is None:
                    raise ValueError(f"{path}: {name} is not a regular file: download {ARCHIVE} from {_URL}")
                yield name, content.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _file_bytes() -> int:
    return _RECORDS * (1 + _PIXEL_BYTES)
