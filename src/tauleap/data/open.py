"""A file or a folder of any registered format, as rows of states."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tauleap._files.printable import one_line, printable
from tauleap._formats import FORMATS, READABLE, check_supported, registration
from tauleap.data.columns import TableError
from tauleap.data.folder import files_in
from tauleap.data.format import Format, LoadedData, format_class

_LONGEST = 1000
"""Characters of a message; longer ones quote a file."""


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
    types: Mapping[str, str] | None = None,
    bins: int | None = None,
    header: bool | None = None,
    missing: Sequence[str] | str | None = None,
    model_missing: bool = False,
    keep_rare: bool = False,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> LoadedData:
    """Return the rows of a file or folder, their format, and a report; the name decides the format.

    Args:
        path: An array (.npy, .npz), a table (.csv, .tsv, .data, .parquet, or delimited text without an ending), a text
            (.txt), a folder of MIDI files or pictures, or many pictures in one file: idx (MNIST, Fashion-MNIST) or the
            binary archive of CIFAR-10.
        length: The length of a row, for text (64 by default), music (256) and arrays with one axis (64).
        coding: The coding of text: characters, bytes, or the one that suits the file.
        drop: Columns of a table to leave out.
        array: Which array of an .npz.
        ordinal: Whether the numbers of an array are quantities; by default those of rows with two or more axes are.
        size: Pixels on the longer side of a picture.
        states: How many states an array has, the values 0..states-1. Default: found in the array.
        types: Types of a table's columns by name, instead of the detected ones: number, category, date, boolean,
            constant, id, text, or ``date:FORMAT`` such as ``date:%d.%m.%Y``.
        bins: Quantile bins per column of numbers or dates, 2 to 10,000. Default: 100.
        header: Whether the first line of delimited text has the names of the columns. Default: detected.
        missing: Texts of missing values beside the empty cell. Default: NA, NaN, null and the like in every column, and
            "?", "-" or "unknown" in columns of numbers or dates.
        model_missing: Learn where values of a table are missing, as a state of their own. Default: false, missing
            values are excluded from the loss.
        keep_rare: Store the rare categories of columns with more than 1,000, so that samples contain them. They may be
            personal data. Default: false, samples have "(other)".
        delimiter: A comma, tab, semicolon, bar or space. Default: detected.
        decimal: The decimal separator, "." or ",". Default: detected.
        encoding: UTF-8, UTF-16, Windows-1252 or Latin-1. Default: detected.

    An ``.npy`` of more than 64 MiB stays in its file, whatever its size: rows are read when they are needed.

    Every error about the data is a ValueError that names the file, the place, and what to do.
    """
    drop = (drop,) if isinstance(drop, str) else tuple(drop)
    options: dict[str, Any] = {
        "length": length,
        "coding": None if coding == "auto" else coding,
        "drop": drop or None,
        "array": array,
        "ordinal": ordinal,
        "size": size,
        "states": states,
        "types": types or None,
        "bins": bins,
        "header": header,
        "missing": (missing,) if isinstance(missing, str) else missing,
        "model_missing": model_missing or None,
        "keep_rare": keep_rare or None,
        "delimiter": delimiter,
        "decimal": decimal,
        "encoding": encoding,
    }
    try:
        return _open(Path(path), {name: value for name, value in options.items() if value is not None})
    except TableError:
        raise  # Each of its lines is one problem, and can be printed.
    except ValueError as error:
        # The message may quote names and bytes of a file that somebody sent.
        if printable(str(error)) == str(error) and len(str(error)) <= _LONGEST:
            raise
        raise ValueError(one_line(str(error))) from error


def _open(path: Path, options: dict[str, Any]) -> LoadedData:
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    for entry in FORMATS:
        cls = format_class(entry)
        if cls.recognises(path):
            _check_options(options, (), path)
            return cls.open(path)
    if path.is_dir():
        return _open_folder(path, options)
    check_supported(path)
    # Files with other names, such as an archive, have been recognised above.
    entry = next((entry for entry in FORMATS if path.suffix.lower() in entry.suffixes), registration("table"))
    return _open_with(format_class(entry), path, options)


def _open_folder(path: Path, options: dict[str, Any]) -> LoadedData:
    endings = Counter(file.suffix.lower() for file in files_in(path))
    counts = {entry: sum(endings[s] for s in (*entry.row_suffixes, *entry.folder_suffixes)) for entry in FORMATS}
    found = {entry: count for entry, count in sorted(counts.items(), key=lambda item: item[0].row_noun) if count}
    if len(found) > 1:
        kinds = " and ".join(f"{count} {entry.row_noun}" for entry, count in found.items())
        raise ValueError(f"{path} holds {kinds}: give a folder of one kind")
    if not found:
        few = ", ".join(f"{count} {suffix or '(no ending)'}" for suffix, count in endings.most_common(5))
        raise ValueError(f"{path} holds {few}; what can be read is {READABLE}")
    ((entry, count),) = found.items()
    loaded = _open_with(format_class(entry), path, options)
    others = endings.total() - count
    return replace(loaded, report=loaded.report + [f"left out: {others} files of other kinds"] * (others > 0))


def _open_with(cls: type[Format], path: Path, options: dict[str, Any]) -> LoadedData:
    parameters = inspect.signature(cls.open).parameters.values()
    _check_options(options, tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY), path)
    return cls.open(path, **options)


def _check_options(options: dict[str, Any], accepted: tuple[str, ...], path: Path) -> None:
    wrong = [name for name in options if name not in accepted]
    if wrong:
        takes = " and ".join(accepted) or "no options"
        raise ValueError(f"{wrong[0]} has no meaning for {path}, which takes {takes}")
