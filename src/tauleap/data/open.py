"""Read a file or folder of any registered format as rows of states."""

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
from tauleap.data.folder import files_in
from tauleap.data.format import Format, LoadedData, format_class
from tauleap.data.sequences.detect import RULE, looks_like_records
from tauleap.data.sequences.files import fasta
from tauleap.data.sequences.format import TokensName
from tauleap.data.table.columns import TableError

_MAX_MESSAGE = 1000
"""Characters of an error message; a longer one quotes a file and is cut."""


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
    lines: bool | None = None,
    tokens: TokensName = "auto",
    vocabulary: int | None = None,
    text: str | None = None,
    label: Sequence[str] | str = (),
) -> LoadedData:
    """Read a file or folder as rows of states; its name determines the format.

    Args:
        path: An array (.npy, .npz), a table (.csv, .tsv, .data, .parquet, or delimited text without an ending), a text
            (.txt), rows of symbols (.smi, .smiles, .fasta, .fa, .faa, .fna, .jsonl), a folder of
            MIDI files or pictures, or many pictures in one file: idx (MNIST, Fashion-MNIST) or the binary archive of
            CIFAR-10.
        length: The length of a row, for text, music and arrays with one axis. Default: 64, for music 256.
        coding: The states of text: "characters" or "bytes". Default: "auto", bytes if a file is not UTF-8 or has more
            than 256 different characters.
        drop: Names of table columns to leave out. Default: none.
        array: The name of the array in an .npz. Default: x, data, train, x_train or arr_0, or else the only array.
        ordinal: Whether the numbers of an array are quantities. Default: True if rows have two or more axes.
        size: Pixels on the longer side of an image. Default: as in the files, at most 64.
        states: The number of states of an array, whose values are 0..states-1. Default: found in the array.
        types: Types of a table's columns by name, instead of the detected ones: number, category, date, boolean,
            constant, id, text, or ``date:FORMAT`` such as ``date:%d.%m.%Y``. Default: all are detected.
        bins: Quantile bins per column of numbers or dates, 2 to 10,000. Default: 100; 5 for labels of rows of symbols.
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
        lines: Whether each line or record is a row of its own; otherwise the file is one text. Default: true for
            molecules, FASTA and JSON lines, and for a ``.txt`` if its lines are short and none is empty (ten or more
            lines, of which 95 % have at most three words).
        tokens: The symbols of such rows: "characters", "bytes", "smiles", "amino", "bases", "words" or "bpe". Default:
            "auto", by the kind of file.
        vocabulary: The largest number of symbols of "bpe" and "words". Default: 4096 for "bpe", all words.
        text: The column of a table, or the entry of JSON objects in a ``.jsonl``, that has rows of symbols; other
            columns are not used. Default: none.
        label: Columns of a table with the class labels of these rows. Default: none.

    Returns:
        The rows, their format, and a report of what was used or left out. The rows of an ``.npy`` of more than 64 MiB
        stay in the file, which may be larger than the memory.

    Raises:
        ValueError: The file cannot be read. The message has the file, the place in it, and what to change.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "text.txt")
    ...     _ = path.write_text("abba" * 4)
    ...     loaded = open_data(path, length=4)
    >>> loaded.dataset.x.tolist()[0], loaded.report
    ([0, 1, 1, 0], ['text.txt: 2 different characters; 4 rows of 4 (--lines: one row per line)'])
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
        "lines": lines,
        "tokens": None if tokens == "auto" else tokens,
        "vocabulary": vocabulary,
        "text": text,
        "label": ((label,) if isinstance(label, str) else tuple(label)) or None,
    }
    try:
        return _open(Path(path), {name: value for name, value in options.items() if value is not None})
    except TableError:
        raise  # Its message has one line per problem, and all of them can be printed.
    except ValueError as error:
        # The message may quote names and bytes of an untrusted file, which could control a terminal.
        if printable(str(error)) == str(error) and len(str(error)) <= _MAX_MESSAGE:
            raise
        raise ValueError(one_line(str(error))) from error


def _open(path: Path, options: dict[str, Any]) -> LoadedData:
    if not path.exists():
        raise ValueError(f"{path} does not exist: write the name of a file or folder")
    for entry in FORMATS:
        cls = format_class(entry)
        if cls.recognises(path):
            _check_options(options, (), path)
            return cls.open(path)
    if path.is_dir():
        return _open_folder(path, options)
    check_supported(path)
    # Files whose whole name is known, such as an archive, were recognised above.
    entry = next((entry for entry in FORMATS if path.suffix.lower() in entry.suffixes), registration("table"))
    if entry.kind == "table" and "label" in options and "text" not in options:
        raise ValueError(
            "--label needs --text: write --text COLUMN, the column with the rows of symbols (text=... in Python)"
        )
    if entry.kind == "table" and "text" in options:
        return _open_with(format_class(registration("sequences")), path, options)
    if entry.kind in ("text", "sequences"):
        return _open_text(path, options, always_rows=entry.kind == "sequences")
    return _open_with(format_class(entry), path, options)


def _open_folder(path: Path, options: dict[str, Any]) -> LoadedData:
    files = files_in(path)
    endings = Counter(file.suffix.lower() for file in files)
    counts = {entry: sum(endings[s] for s in (*entry.row_suffixes, *entry.folder_suffixes)) for entry in FORMATS}
    found = {entry: count for entry, count in sorted(counts.items(), key=lambda item: item[0].row_noun) if count}
    if len(found) > 1:
        kinds = " and ".join(f"{count} {entry.row_noun}" for entry, count in found.items())
        raise ValueError(f"{path} contains {kinds}: put them into separate folders")
    if not found:
        counted = ", ".join(f"{count} {suffix or '(no ending)'}" for suffix, count in endings.most_common(5))
        suffixes = {suffix for entry in FORMATS for suffix in entry.suffixes}
        for file in files:
            if file.suffix.lower() in suffixes:
                raise ValueError(
                    f"{path} is a folder with {counted}, but only pictures, MIDI files and piano rolls are read from "
                    f"folders: write the name of one file, such as {file}"
                )
        raise ValueError(f"{path} contains {counted}, which cannot be read; accepted are {READABLE}")
    ((entry, count),) = found.items()
    loaded = _open_with(format_class(entry), path, options)
    others = endings.total() - count
    return replace(loaded, report=loaded.report + [f"left out: {others} files of other kinds"] * (others > 0))


def _open_text(path: Path, options: dict[str, Any], *, always_rows: bool) -> LoadedData:
    """Read a text as one text, or every line or record as a row; the report names the option for the other way."""
    lines, rest = options.get("lines"), {name: value for name, value in options.items() if name != "lines"}
    if lines is None and always_rows:
        lines = True
    if lines is None:
        # The first two options have no meaning for one text, and the third none for rows.
        lines = "coding" not in rest and ("tokens" in rest or "vocabulary" in rest or looks_like_records(path))
    if not lines:
        return _open_with(format_class(registration("text")), path, rest)
    loaded = _open_with(format_class(registration("sequences")), path, rest)
    if options.get("lines"):
        why = "as given"
    elif always_rows:
        why = f"because of the ending {path.suffix}"
    else:
        why = f"because {RULE}" if looks_like_records(path) else "for --tokens"
    noun = "record" if path.suffix.lower() in fasta.SUFFIXES else "line"
    note = f"{path.name}: one row per {noun}, {why} (--no-lines: one text)"
    return replace(loaded, report=[note, *loaded.report])


def _open_with(cls: type[Format], path: Path, options: dict[str, Any]) -> LoadedData:
    parameters = inspect.signature(cls.open).parameters.values()
    _check_options(options, tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY), path)
    return cls.open(path, **options)


def _check_options(options: dict[str, Any], accepted: tuple[str, ...], path: Path) -> None:
    wrong = [name for name in options if name not in accepted]
    if wrong:
        names, noun = ", ".join(accepted) or "no options", "options" if len(wrong) > 1 else "option"
        raise ValueError(f"{path} does not take the {noun} {', '.join(wrong)}; this kind of data takes: {names}")
