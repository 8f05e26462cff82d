"""A file or a folder of any kind, as rows of states."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tauleap import _formats
from tauleap._files.printable import one_line, printable
from tauleap.data.array_open import open_array
from tauleap.data.folder import files_in
from tauleap.data.form import Opened
from tauleap.data.images import open_images, open_packed
from tauleap.data.music import open_music
from tauleap.data.table import open_table
from tauleap.data.text import open_text


def open_data(
    path: str | os.PathLike[str],
    *,
    length: int | None = None,
    coding: Literal["auto", "characters", "bytes"] = "auto",
    drop: Sequence[str] | str = (),
    array: str | None = None,
    ordinal: bool | None = None,
    size: int | None = None,
    states: int | None = None,
) -> Opened:
    """The rows of a file or folder, what they mean, and what was used; the kind is found by the end of the name.

    Args:
        path: an array (.npy, .npz), a table (.csv, .tsv, .parquet), a text (.txt), a folder of MIDI files or
            pictures, or many pictures in one file: idx (MNIST, Fashion-MNIST) or the binary archive of CIFAR-10.
        length: of a row, for text (64 by default), music (256) and arrays with one axis (64).
        coding: of text: characters, bytes, or what suits the file.
        drop: columns of a table to leave out.
        array: which array of an .npz.
        ordinal: whether the numbers of an array are quantities; by default those of rows with two or more axes are.
        size: of pictures, pixels on the longer side.
        states: of an array: how many there are, the values 0..states-1, where they are not to be found in the array.

    An ``.npy`` of more than 64 MiB stays in its file, whatever its size: rows are read when they are needed.

    Every error about the data is a ValueError that names the file, the place, and what to do.
    """
    try:
        return _open(Path(path), length, coding, drop, array, ordinal, size, states)
    except ValueError as error:
        # The message may quote names and bytes of a file that somebody sent.
        if printable(str(error)) == str(error):
            raise
        raise ValueError(one_line(str(error))) from error


def _open(
    path: Path,
    length: int | None,
    coding: str,
    drop: Sequence[str] | str,
    array: str | None,
    ordinal: bool | None,
    size: int | None,
    states: int | None,
) -> Opened:
    drop = (drop,) if isinstance(drop, str) else tuple(drop)
    given: dict[str, Any] = {
        "length": length,
        "coding": None if coding == "auto" else coding,
        "drop": drop or None,
        "array": array,
        "ordinal": ordinal,
        "size": size,
        "states": states,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    many = open_packed(path)
    if many is not None:
        _fitting(given, (), path)
        return many
    if path.is_dir():
        return _open_folder(path, given)
    opener, takes = _by_suffix(path)
    return opener(path, **_fitting(given, takes, path))


def _by_suffix(path: Path) -> tuple[Any, tuple[str, ...]]:
    _formats.check_supported(path)
    suffix = path.suffix.lower()
    if suffix in _formats.ARRAYS:
        return open_array, ("length", "array", "ordinal", "states")
    if suffix in _formats.TABLES:
        return open_table, ("drop",)
    return open_text, ("length", "coding")


def _open_folder(path: Path, given: dict[str, Any]) -> Opened:
    endings = Counter(file.suffix.lower() for file in files_in(path))
    kinds = ((*_formats.MIDI, *_formats.ROLLS), _formats.IMAGES)
    scores, pictures = (sum(endings[s] for s in suffixes) for suffixes in kinds)
    if scores and pictures:
        raise ValueError(f"{path} holds {scores} MIDI files and {pictures} pictures: give a folder of one kind")
    if not scores and not pictures:
        few = ", ".join(f"{count} {suffix or '(no ending)'}" for suffix, count in endings.most_common(5))
        raise ValueError(f"{path} holds {few}; what can be read is {_formats.READABLE}")
    opener, takes = (open_music, ("length",)) if scores else (open_images, ("size",))
    opened = opener(path, **_fitting(given, takes, path))
    others = endings.total() - scores - pictures
    return replace(opened, report=opened.report + [f"left out: {others} files of other kinds"] * (others > 0))


def _fitting(given: dict[str, Any], takes: tuple[str, ...], path: Path) -> dict[str, Any]:
    wrong = [name for name in given if name not in takes]
    if wrong:
        raise ValueError(f"{wrong[0]} has no meaning for {path}, which takes {' and '.join(takes) or 'no options'}")
    return given
