"""The format of tables of categories: a row is one datum, each column a site with its own number of states."""

from __future__ import annotations

import difflib
import io
import math
import shlex
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tauleap import _files
from tauleap.data import limits
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.table.reader import read_lines

_ORDERED_LEVELS = 8
_ALL_DIFFERENT = 20
_ABSENT = -1


@dataclass(frozen=True)
class TableFormat(Format):
    """Columns by name, each with its categories.

    Args:
        columns: The names.
        categories: The categories of each column: state ``i`` of column ``c`` is ``categories[c][i]``.
        ordered: Whether the categories of all columns are quantities.
    """

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

    @staticmethod
    def open(path: Path, *, drop: Sequence[str] = ()) -> LoadedData:
        """Return all columns but those that are dropped; rows without any value are left out.

        Args:
            path: A ``.csv``, ``.tsv`` or ``.parquet`` file.
            drop: Names of columns to leave out.
        """
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
                        f"{path}, {where}: column {name!r} has more than {limits.CATEGORIES} different values, so it "
                        f"is no category: leave it out ({_remedy(name)}), or put its values into fewer groups"
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
                    f"{path}: the {count} values of column {name!r} are all different, as of a number of a row, so "
                    f"there is nothing to learn from it: leave it out ({_remedy(name)})"
                )
        if max(map(len, codes)) < 2:
            raise ValueError(f"{path}: each column has one value only, so there is nothing to learn")
        ordered = all(len(known) >= _ORDERED_LEVELS and all(map(_is_whole, known)) for known in codes)
        sorted_values = [_sorted(known) for known in codes]
        form = TableFormat(names, tuple(tuple(held) for held in sorted_values), ordered)
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
        return LoadedData(form._dataset(recoded, path), form, report)

    @property
    def site_names(self) -> tuple[str, ...]:
        return self.columns

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        if data.missing is not None:
            return path, "fills in its empty cells"
        return f"{path} --observed {shlex.quote(self.columns[0])}", "draws the other columns, given this one"

    def read(self, path: Path) -> Dataset:
        """Return the columns that the model knows, found by name; others are ignored.

        Args:
            path: The file.
        """
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

    def preview(self, x: Tensor, n: int) -> str:
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
