"""CIFAR-10 (Krizhevsky 2009): 60,000 colour pictures, 32 x 32 with 256 shades, of ten kinds (Section 6.2).

It is read from its binary version: a record is a label and 3,072 bytes, the red, green and blue planes. The archive is
opened after its checksum was verified. The Python version is made of pickles, which can run code, and is rejected.
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
from tauleap.data.image.npz import SHADES, check_labels, of_shape

SHAPE = (3, 32, 32)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""What the labels 0..9 stand for."""

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"
_TRAIN, _TEST = _formats.CIFAR_TRAIN, _formats.CIFAR_TEST
_URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"  # its authors publish the MD5 c32a1d4a...
_MOST_PACKED = 2**28  # it has 170,052,171 bytes
_MOST_UNPACKED = 2**28  # it has 184,400,000 bytes or so
_RECORDS = 10_000  # a file
_PIXELS = 3072
_PYTHON_NAME = "cifar-10-python"
_PICKLES = (
    f"is the Python version of CIFAR-10, whose files are pickles and can run code: get the binary version, {ARCHIVE}, "
    f"from {_URL}"
)


def cifar10(path: str | os.PathLike[str] | None = None, *, download: bool = False) -> tuple[Dataset, Dataset]:
    """Return 50,000 pictures (3, 32, 32) to train with and 10,000 to test with; ``condition`` is the label.

    Args:
        path: the archive ``cifar-10-binary.tar.gz`` with the published checksum, of which nothing is unpacked to the
            disk; or the folder ``cifar-10-batches-bin`` that is in it; or an ``.npz`` with the arrays that
            :func:`tauleap.data.images_npz` reads. If absent, the archive that was downloaded before.
        download: gets the archive (170 MB) from its authors' site if it is not in the cache: ``$TAULEAP_CACHE``, or
            the folder tauleap in ``$XDG_CACHE_HOME`` or ``~/.cache``. It is kept if its checksum is the published one.

    What the labels stand for is in ``tauleap.data.image.cifar.CLASSES``.
    """
    if path is None:
        kept = downloads.cache_folder() / ARCHIVE
        if download:
            downloads.fetch(_URL, kept, sha256=_SHA256, max_bytes=_MOST_PACKED)
        elif not kept.is_file():
            raise ValueError(f"{kept} does not exist: write download=True, or give the path of {ARCHIVE}")
        path = kept
    elif download:
        raise ValueError(f"{path} is to be read, not downloaded: write the path, or download=True, and not both")
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist: write download=True, or give the path of {ARCHIVE} or {FOLDER}")
    if path.suffix.lower() == ".npz":
        return of_shape(path, SHAPE, classes=len(CLASSES), name="CIFAR-10")
    read = _in_folder(_folder(path)) if path.is_dir() else _in_archive(path)
    with closing(read) as contents:
        x, labels = _pictures(contents, (*_TRAIN, *_TEST), path)
    learnt = _RECORDS * len(_TRAIN)
    parts = (slice(learnt), slice(learnt, None))
    train, test = (Dataset(x[part], SHADES, condition=labels[part]) for part in parts)
    return train, test


def is_cifar(path: Path) -> bool:
    """Return whether a file is an archive, or a folder has the files of CIFAR-10, of any version.

    Args:
        path: The file or folder.
    """
    if path.is_dir():
        return any((path / name).is_file() for name in (_TRAIN[0], _pickled(_TRAIN[0])))
    return path.is_file() and path.name.lower().endswith(_formats.ARCHIVES)


def is_batch(path: Path) -> bool:
    """Return whether a file is called like one of the six in the archive.

    Args:
        path: The file.
    """
    return path.is_file() and path.name in (*_TRAIN, *_TEST)


def read_batch(path: Path) -> Tensor:
    """Return the pictures of one file of the archive, (n, 3, 32, 32) bytes.

    Args:
        path: The file.
    """
    return _pictures([(path.name, _file(path))], (path.name,), path.parent)[0]


def _pictures(contents: Iterable[tuple[str, bytes]], names: Sequence[str], path: Path) -> tuple[Tensor, Tensor]:
    """What the files called ``names`` hold, in this order: pictures and labels."""
    x = np.empty((len(names), _RECORDS, _PIXELS), dtype=np.uint8)
    labels = np.empty((len(names), _RECORDS), dtype=np.int64)
    left = set(names)
    for name, content in contents:
        if name not in left:
            raise ValueError(f"{path} holds {name} twice: get {ARCHIVE} from {_URL}")
        left.remove(name)
        place = names.index(name)
        records = np.frombuffer(content, dtype=np.uint8).reshape(_RECORDS, 1 + _PIXELS)
        labels[place], x[place] = records[:, 0], records[:, 1:]
        check_labels(torch.from_numpy(labels[place]), f"{path}: {name}", classes=len(CLASSES))
    if left:
        raise ValueError(f"{path} has no {min(left)}: give {ARCHIVE}, or the folder {FOLDER} that is in it")
    return torch.from_numpy(x.reshape(-1, *SHAPE)), torch.from_numpy(labels.reshape(-1))


def _in_folder(path: Path) -> Generator[tuple[str, bytes], None, None]:
    for name in (*_TRAIN, *_TEST):
        if (path / name).exists():
            yield name, _file(path / name)
        elif (path / _pickled(name)).exists():
            raise ValueError(f"{path} {_PICKLES}")


def _folder(path: Path) -> Path:
    """The folder itself, or the one in it that the archive unpacks to."""
    return path / FOLDER if (path / FOLDER).is_dir() else path


def _pickled(name: str) -> str:
    return name.removesuffix(".bin")


def _file(path: Path) -> bytes:
    _check_size(limits.size(path, _MOST_UNPACKED), str(path))
    return safe_read.read_bytes(path, most=_MOST_UNPACKED)


def _check_size(size: int, where: str) -> None:
    wanted = _file_bytes()
    if size != wanted:
        raise ValueError(
            f"{where} must have {wanted:,} bytes, {_RECORDS:,} pictures with labels, got {size:,}: it is damaged"
        )


def _in_archive(path: Path) -> Generator[tuple[str, bytes], None, None]:
    limits.size(path, _MOST_PACKED)
    if path.name.startswith(_PYTHON_NAME):
        raise ValueError(f"{path} {_PICKLES}")
    # First the checksum: a forged header can keep tarfile busy for ever, or make it take any memory.
    found = downloads.sha256_of(path)
    if found != _SHA256:
        raise ValueError(
            f"{path} is damaged, or is not {ARCHIVE} as its authors publish it: its SHA-256 is {found}, not {_SHA256}: "
            f"get it from {_URL}, or unpack it and give the folder {FOLDER}"
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
                    raise ValueError(f"{path}: {name} is not a plain file")
                yield name, content.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _file_bytes() -> int:
    return _RECORDS * (1 + _PIXELS)
