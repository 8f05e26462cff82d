"""The registered file formats: one line each, with the endings of their files.

The endings are here and not in the class of a format, because a file of another type is rejected before torch is
imported, and the modules of the formats import torch. Everything else about a format is in its class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ARCHIVES = (".tar.gz", ".tgz", ".tar")
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_TEST = ("test_batch.bin",)
_SNIFFED = 4096
"""Bytes at the beginning of a file without an ending, which decide whether it is text."""
_NO_TEXT = frozenset(range(32)) - frozenset(b"\t\n\v\f\r")
IDX_NAME = re.compile(r"[.-]idx\d-ubyte(\.gz)?$", re.IGNORECASE)


def is_picture_collection(name: str) -> bool:
    """Return whether a file with this name may hold many pictures: idx, or a file of CIFAR-10.

    Args:
        name: The name of the file, without its folder.
    """
    is_cifar = name.lower().endswith(ARCHIVES) or name in (*CIFAR_TRAIN, *CIFAR_TEST)
    return is_cifar or IDX_NAME.search(name) is not None


@dataclass(frozen=True)
class Registration:
    """Register a file format.

    Args:
        kind: The name in the configuration of a saved model.
        target: The class, as "module:name"; it is imported when it is needed.
        suffixes: Endings of files with many rows.
        row_suffixes: Endings of files with one row each. A folder of them is data to train on.
        folder_suffixes: Endings of files that are read from a folder only.
        has_name: Whether a file with this name has many rows, where endings do not decide. Default: never.
        row_types: Names of the types with ``row_suffixes``, for messages.
        row_noun: Plural of a file with one row, for messages.
        description: Other data than files with ``suffixes``, for messages.
    """

    kind: str
    target: str
    suffixes: tuple[str, ...] = ()
    row_suffixes: tuple[str, ...] = ()
    folder_suffixes: tuple[str, ...] = ()
    has_name: Callable[[str], bool] = lambda name: False
    row_types: tuple[str, ...] = ()
    row_noun: str = ""
    description: str = ""


FORMATS = (
    Registration("array", "tauleap.data.array.format:ArrayFormat", (".npy", ".npz")),
    Registration(
        "table",
        "tauleap.data.table.format:TableFormat",
        (".csv", ".tsv", ".data", ".parquet"),
        description="delimited text without an ending",
    ),
    Registration("text", "tauleap.data.text:TextFormat", (".txt",)),
    Registration(
        "sequences",
        "tauleap.data.sequences.format:SequenceFormat",
        (".smi", ".smiles", ".fasta", ".fa", ".faa", ".fna", ".jsonl"),
    ),
    Registration(
        "images",
        "tauleap.data.image.format:ImageFormat",
        row_suffixes=(".png", ".jpg", ".jpeg"),
        has_name=is_picture_collection,
        row_types=("PNG", "JPEG"),
        row_noun="pictures",
        description="a folder of PNG or JPEG pictures, an idx file (-idx3-ubyte, .gz), CIFAR-10 "
        "(cifar-10-binary.tar.gz)",
    ),
    Registration(
        "midi",
        "tauleap.data.music.format:MusicFormat",
        row_suffixes=(".mid", ".midi"),
        folder_suffixes=(".npz",),
        row_types=("MIDI",),
        row_noun="MIDI files",
        description="a folder of MIDI files or piano rolls",
    ),
)
"""All formats. To add one, write a subclass of :class:`tauleap.data.Format` in a new file, and a line here."""

_DESCRIPTIONS = [entry.description for entry in FORMATS if entry.description]
READABLE = (
    f"{', '.join(suffix for entry in FORMATS for suffix in entry.suffixes)}, "
    f"{', '.join(_DESCRIPTIONS[:-1])} or {_DESCRIPTIONS[-1]}"
)


def registration(kind: str) -> Registration:
    """Return the registration of a format.

    Args:
        kind: One of the kinds in :data:`FORMATS`.
    """
    return next(entry for entry in FORMATS if entry.kind == kind)


def is_plain_text(path: Path) -> bool:
    """Return whether a file without an ending begins with text, so that it may be a table.

    Args:
        path: A file that exists.
    """
    if path.suffix:
        return False
    with path.open("rb") as file:
        content = file.read(_SNIFFED)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16
        return True
    return content != b"" and not _NO_TEXT.intersection(content)


def check_supported(path: Path, *, single: bool = False) -> None:
    """Raise ValueError unless ``path`` is a folder, or a file whose name is that of data that can be read.

    Args:
        path: A file or folder that exists.
        single: Whether one picture or one MIDI file is enough, as for a model that is trained already. Default: false.
    """
    suffix = path.suffix.lower()
    if path.is_dir() or any(suffix in entry.suffixes for entry in FORMATS):
        return
    if path.is_file() and (any(entry.has_name(path.name) for entry in FORMATS) or is_plain_text(path)):
        return
    if any(suffix in entry.row_suffixes for entry in FORMATS):
        if single:
            return
        raise ValueError(f"{path} is one example, which is not enough to train on: write a folder with many such files")
    types = [name for entry in FORMATS for name in entry.row_types]
    kinds = f"{READABLE}; or a {', '.join(types[:-1])} or {types[-1]} file" if single else READABLE
    raise ValueError(f"{path} has the ending {suffix or '(none)'!r}, which cannot be read; accepted are {kinds}")
