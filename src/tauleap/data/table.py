"""Tables of categories: a row is one datum, each column a site with its own number of states.

Text by the csv module; ``.parquet`` through pyarrow (``pip install 'tauleap[table]'``). A cell that is empty, or holds
one of a few marks such as NA, is missing.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tauleap import _files
from tauleap.data import limits
from tauleap.data.arrays import Dataset
from tauleap.data.form import Form, Opened

MISSING_MARKS = frozenset({"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"})
"""What a cell holds whose value nobody knows; spaces around it do not count."""

_DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
_ORDERED_LEVELS = 8
_ALL_DIFFERENT = 20
_ABSENT = -1

Line = tuple[str, Sequence[str | None]]
"""Where a row is, for messages, and its cells; None for what is missing."""


@dataclass(frozen=True)
class TableForm(Form):
    """Columns by name, each with its categories: state ``i`` of column ``c`` is ``categories[c][i]``."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    ordered: bool

    def __post_init__(self) -> None:
        names = self.columns
        if not isinstance(names, tuple) or not names or any(not isinstance(name, str) for name in names):
            raise ValueError("a table must have one or more columns with names")
        if len(set(names)) != len(names):
            raise ValueError("the names of a table's columns must differ")
        if not isinstance(self.categories, tuple) or len(self.categories) != len(names):
            raise ValueError(f"a table of {len(names)} columns must have as many lists of categories")
        for name, held in zip(names, self.categories, strict=True):
            if not isinstance(held, tuple) or not held or any(not isinstance(value, str) for value in held):
                raise ValueError(f"column {name!r} must have one or more categories, each a text")
            if len(set(held)) != len(held) or len(held) > limits.CATEGORIES:
                raise ValueError(f"column {name!r} must have at most {limits.CATEGORIES} categories that differ")
        if self.num_states < 2:
            raise ValueError("at least one column must have two categories: there is nothing to learn otherwise")
        if not isinstance(self.ordered, bool):
            raise ValueError(f"ordered must be true or false, got {self.ordered!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns),)

    @property
    def num_states(self) -> int:
        return max(len(held) for held in self.categories)

    @property
    def sizes(self) -> Tensor | None:
        sizes = torch.tensor([len(held) for held in self.categories])
        return None if bool((sizes == sizes[0]).all()) else sizes

    @property
    def ordinal(self) -> bool:
        return self.ordered

    def read(self, path: Path) -> Dataset:
        """The columns that the model knows, found by name; others are not looked at."""
        header, lines = read_lines(path)
        absent = [name for name in self.columns if name not in header]
        if absent:
            raise ValueError(
                f"{path} has no column {absent[0]!r}: it must have {', '.join(self.columns)}; "
                "what is to be filled in is a column of empty cells"
            )
        places = [header.index(name) for name in self.columns]
        codes = [{value: code for code, value in enumerate(held)} for held in self.categories]
        cells = array("i")
        for where, row in lines:
            for place, name, known in zip(places, self.columns, codes, strict=True):
                value = row[place]
                if value is not None and value not in known:
                    near = difflib.get_close_matches(value, known, n=3) or list(known)[:5]
                    raise ValueError(
                        f"{path}, {where}, column {name!r}: {_short(value)} is no category that the model knows, such "
                        f"as {', '.join(map(_short, near))}; leave the cell empty if the value is not known"
                    )
                cells.append(_ABSENT if value is None else known[value])
        return self._dataset(np.frombuffer(cells, dtype=np.intc).reshape(-1, len(places)), path)

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.csv"
        with _files.atomic_write(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            self._print(x, text)
            text.flush()
            text.detach()
        return [path]

    def show(self, x: Tensor, n: int) -> str:
        text = io.StringIO()
        self._print(x[:n], text)
        return text.getvalue().rstrip("\n")

    def _print(self, x: Tensor, file: Any) -> None:
        quoted = [[_quoted(value) for value in held] for held in self.categories]
        file.write(",".join(map(_quoted, self.columns)) + "\n")
        for row in self.check(x).tolist():
            file.write(",".join(held[state] for held, state in zip(quoted, row, strict=True)) + "\n")

    def _dataset(self, cells: np.ndarray, path: Path) -> Dataset:
        if len(cells) == 0:
            raise ValueError(f"{path} has a header and no rows")
        missing = torch.from_numpy(cells == _ABSENT)
        x = torch.from_numpy(np.where(cells == _ABSENT, 0, cells).astype(np.int16))
        return Dataset(x, self.num_states, missing=missing if bool(missing.any()) else None, sizes=self.sizes)


def open_table(path: Path, *, drop: Sequence[str] = ()) -> Opened:
    """All columns but those in ``drop``; rows of which nothing is known are left out."""
    header, lines = read_lines(path)
    unknown = [name for name in drop if name not in header]
    if unknown:
        raise ValueError(f"{path} has no column {unknown[0]!r} to leave out: it has {', '.join(header)}")
    places = [place for place, name in enumerate(header) if name not in drop]
    if not places:
        raise ValueError(f"{path}: no column is left")
    names = tuple(header[place] for place in places)
    codes: list[dict[str, int]] = [{} for _ in places]
    cells, skipped = array("i"), 0
    for where, row in lines:
        if all(row[place] is None for place in places):
            skipped += 1
            continue
        for place, name, known in zip(places, names, codes, strict=True):
            value = row[place]
            code = _ABSENT if value is None else known.setdefault(value, len(known))
            if len(known) > limits.CATEGORIES:
                raise ValueError(
                    f"{path}, {where}: column {name!r} has more than {limits.CATEGORIES} different values, so it is no "
                    f"category: leave it out ({_remedy(name)}), or put its values into fewer groups"
                )
            cells.append(code)
    seen = np.frombuffer(cells, dtype=np.intc).reshape(-1, len(places))
    if len(seen) == 0:
        raise ValueError(f"{path} has a header and no rows with values")
    known_cells = (seen != _ABSENT).sum(0).tolist()
    for name, known, count in zip(names, codes, known_cells, strict=True):
        if count == 0:
            raise ValueError(f"{path}: column {name!r} has no values: leave it out ({_remedy(name)})")
        if len(known) == count >= _ALL_DIFFERENT:
            raise ValueError(
                f"{path}: the {count} values of column {name!r} are all different, as of a number of a row, so there "
                f"is nothing to learn from it: leave it out ({_remedy(name)})"
            )
    if max(map(len, codes)) < 2:
        raise ValueError(f"{path}: each column has one value only, so there is nothing to learn")
    ordered = all(len(known) >= _ORDERED_LEVELS and all(map(_is_whole, known)) for known in codes)
    sorted_values = [_sorted(known) for known in codes]
    form = TableForm(names, tuple(tuple(held) for held in sorted_values), ordered)
    recoded = seen.copy()
    for place, (known, held) in enumerate(zip(codes, sorted_values, strict=True)):
        rank = {value: code for code, value in enumerate(held)}
        # The last entry is where the index -1 of a missing cell leads.
        table = np.array([*(rank[value] for value in known), _ABSENT], dtype=np.intc)
        recoded[:, place] = table[seen[:, place]]
    sizes = ", ".join(f"{name} ({len(held)})" for name, held in zip(names, form.categories, strict=True))
    report = [f"{path.name}: {len(seen)} rows; columns with their number of categories: {sizes}"]
    empty = int((seen == _ABSENT).sum())
    if empty:
        report.append(f"{empty} of {seen.size} cells are missing")
    if skipped:
        report.append(f"{skipped} rows without any value are left out")
    if drop:
        report.append(f"left out: {', '.join(drop)}")
    return Opened(form._dataset(recoded, path), form, report)


def read_lines(path: Path) -> tuple[list[str], Iterator[Line]]:
    """The names of the columns, and the rows as they are asked for."""
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    return _read_text(path)


def _read_text(path: Path) -> tuple[list[str], Iterator[Line]]:
    content = limits.contents(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8: save the table as UTF-8"
        ) from error
    delimiter = max(_DELIMITERS.get(path.suffix.lower(), ",;\t"), key=lambda one: _columns(text, one))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    def lines() -> Iterator[tuple[int, list[str]]]:
        try:
            for row in rows:
                if row or (header is not None and len(header) == 1):
                    yield rows.line_num, row or [""]
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {rows.line_num}: {error}: a value with a quote, a {delimiter!r} or a line break is "
                'written "in quotes", a quote inside it twice'
            ) from error

    header: list[str] | None = None
    source = lines()
    try:
        _, names = next(source)
    except StopIteration:
        raise ValueError(f"{path} holds no table: its first line must name the columns") from None
    header = _header(names, path)
    return header, _cells(source, header, path)


def _columns(text: str, delimiter: str) -> int:
    """How many names the first line has when it is cut in this way; 0 where it cannot be."""
    try:
        return len(next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), []))
    except csv.Error:
        return 0


def _cells(source: Iterator[tuple[int, list[str]]], header: list[str], path: Path) -> Iterator[Line]:
    for count, (line, row) in enumerate(source):
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line}: {len(row)} cells, but the first line names {len(header)} columns")
        if count * len(header) > limits.VALUES:
            raise ValueError(f"{path} has more than {limits.VALUES:,} cells: write a part of it to a file of its own")
        yield f"line {line}", [None if cell.strip() in MISSING_MARKS else cell for cell in row]


def _read_parquet(path: Path) -> tuple[list[str], Iterator[Line]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ValueError("a .parquet file needs another package: write pip install 'tauleap[table]'") from error
    limits.size(path)
    damaged = (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)

    def told(error: Exception) -> ValueError:
        return ValueError(f"{path} is damaged, or no parquet file: {' '.join(str(error).split())[:200]}")

    try:
        file = pyarrow.parquet.ParquetFile(path)
        rows, schema = file.metadata.num_rows, file.schema_arrow
        unpacked = sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))
        names = [str(name) for name in schema.names]
        types = [schema.field(place).type for place in range(len(names))]
    except damaged as error:
        raise told(error) from error
    header = _header(names, path)
    if not 0 <= rows * len(header) <= limits.VALUES or not 0 <= unpacked <= limits.FILE_BYTES:
        raise ValueError(f"{path} has {rows:,} rows and unpacks to {unpacked:,} bytes: write a part of it to a file")
    for name, kind in zip(header, types, strict=True):
        if pyarrow.types.is_nested(kind):
            raise ValueError(f"{path}: column {name!r} has lists or records ({kind}) in its cells, not categories")

    def lines() -> Iterator[Line]:
        row = 0
        try:
            for batch in file.iter_batches(batch_size=8192):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    row += 1
                    yield f"row {row}", [_as_cell(value) for value in values]
        except damaged as error:
            raise told(error) from error

    return header, lines()


def _as_cell(value: object) -> str | None:
    if isinstance(value, float):  # whole numbers become floats where some are missing
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return None if value is None or text.strip() in MISSING_MARKS else text


def _header(names: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in names]
    if not names or "" in names:
        raise ValueError(f"{path}, line 1: column {names.index('') + 1 if names else 1} has no name; write one")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}, line 1: two columns are called {repeated[0]!r}; names must differ")
    return names


def _sorted(values: Sequence[str] | dict[str, int]) -> list[str]:
    """By number where all are numbers, by letter otherwise."""
    try:
        numbers = {value: float(value) for value in values}
    except ValueError:
        return sorted(values)
    if not all(map(math.isfinite, numbers.values())):
        return sorted(values)
    return sorted(values, key=lambda value: (numbers[value], value))


def _quoted(value: str) -> str:
    # By hand, because the csv module of some versions leaves a carriage return unquoted.
    return '"' + value.replace('"', '""') + '"' if any(mark in value for mark in ',;\t"\r\n') else value


def _is_whole(value: str) -> bool:
    return value.removeprefix("-").isdecimal()


def _remedy(name: str) -> str:
    return f"drop={name!r} in Python, --drop {name} on the command line"


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:37] + "...")
