"""The format of tables: a row is one datum, and each column with something to learn is a site."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tauleap._seeds import derive_seed
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.table.arguments import check_arguments, contradiction
from tauleap.data.table.columns import DecodedTable, Problem, RawTable, TableEncoder, TableError, to_frame
from tauleap.data.table.columns.dependency import Dependency, find_dependencies
from tauleap.data.table.columns.fields import Fields
from tauleap.data.table.columns.number import BINS
from tauleap.data.table.completed import completed_frame, completed_texts, drawn_cells
from tauleap.data.table.csv import option_problems, write_delimited, write_texts
from tauleap.data.table.legacy import encoder_of_categories, with_frame_types
from tauleap.data.table.reader import read_table
from tauleap.data.table.writer import preview_texts, write_parquet, write_text

SUFFIXES = (".csv", ".tsv", ".data", ".parquet")
_ORDERED_LEVELS = 8
"""States of a column of numbers from which they are taken as ordered quantities."""
_MOST_PROBLEMS = 50
"""Problems in one report, as in one error message; the others are counted."""
_MOST_COLUMNS = 100
"""Columns in the table of types of a report; the others are counted by type."""


@dataclass(frozen=True)
class TableFormat(Format):
    """Read and write tables, whose columns are found by name.

    Args:
        encoder: The encoder of all columns.
        suffix: The ending of the files that are written. Default: ``.csv``.
        missing: The texts of missing values that the user gave. Default: None, they are detected.
    """

    kind: ClassVar[str] = "table"
    encoder: TableEncoder
    suffix: str = ".csv"
    missing: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.suffix not in SUFFIXES:
            raise ValueError(f"suffix of a table must be one of {', '.join(SUFFIXES)}, got {self.suffix!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.encoder.sizes),)

    @property
    def num_states(self) -> int:
        return max(self.encoder.sizes)

    @property
    def sizes(self) -> Tensor | None:
        sizes = torch.tensor(self.encoder.sizes)
        return None if bool((sizes == sizes[0]).all()) else sizes

    @property
    def ordinal(self) -> bool:
        columns = [self.encoder.columns[place] for place in self.encoder.sites]
        return all(
            column.encoder.type in ("number", "date")
            and not column.missing_state
            and column.num_states >= _ORDERED_LEVELS
            for column in columns
        )

    @property
    def site_names(self) -> tuple[str, ...]:
        return tuple(self.encoder.columns[place].name for place in self.encoder.sites)

    @staticmethod
    def open(
        path: Path,
        *,
        drop: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        bins: int = BINS,
        header: bool | None = None,
        missing: Collection[str] | None = None,
        model_missing: bool = False,
        keep_rare: bool = False,
        delimiter: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
    ) -> LoadedData:
        """Return the rows of a table; rows without any value are left out.

        Args:
            path: A ``.csv``, ``.tsv``, ``.data`` or ``.parquet`` file, or delimited text without an ending.
            drop: Names of columns to leave out.
            types: Types by column name instead of the detected ones.
            bins: Quantile bins per column of numbers or dates. Default: 100.
            header: Whether the first line has the names of the columns. Default: detected.
            missing: Texts of missing values beside the empty cell. Default: detected.
            model_missing: Learn where values are missing, as a state of their own. Default: false.
            keep_rare: Store rare categories, so that samples contain them. Default: false.
            delimiter: The delimiter. Default: detected.
            decimal: The decimal separator. Default: detected.
            encoding: The encoding. Default: detected.

        Raises:
            ValueError: The file cannot be used; all problems are listed.
        """
        check_arguments(types=types, bins=bins, header=header)
        options = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}
        wrong = {} if path.suffix.lower() == ".parquet" else option_problems(**options)
        options = {name: value for name, value in options.items() if name not in wrong}
        try:
            raw = read_table(path, header=header, missing=missing, **options)
        except TableError as error:
            raise TableError(str(path), [*wrong.values(), *error.problems]) from error
        loaded = load_table(
            raw,
            drop=drop,
            types=types,
            bins=bins,
            model_missing=model_missing,
            keep_rare=keep_rare,
            name=path.name,
            wrong=[*wrong.values()],
        )
        suffix = path.suffix.lower() if path.suffix.lower() in SUFFIXES else ".csv"
        marks = None if missing is None else tuple(missing)
        form = TableFormat(loaded.form.encoder, suffix, marks)  # pyright: ignore[reportAttributeAccessIssue]
        return replace(loaded, form=form)

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        if data.missing is not None:
            return path, "fills in its empty cells"
        return f"{path} --observed {shlex.quote(self.site_names[0])}", "draws the other columns, given this one"

    def read(self, path: Path) -> Dataset:
        """Return the columns that the model knows, found by name; others are ignored.

        Args:
            path: The file.
        """
        return self.read_with_report(path)[0]

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        return self.encode(self._read(path))

    def encode(self, raw: RawTable, *, training: bool = False) -> tuple[Dataset, list[str]]:
        """Return the states of a table, and lines about the cells that could not be read.

        Args:
            raw: The table; its columns are found by name.
            training: Whether the types of columns can still be changed, for the remedies. Default: false.

        Raises:
            ValueError: A column is absent, or there are no rows.
        """
        encoded = self.encoder.encode(raw, training=training)
        if raw.num_rows == 0:
            raise ValueError(f"{raw.name} has no rows: give one row or more")
        missing = torch.from_numpy(encoded.missing)
        dtype = np.int16 if self.num_states < 2**15 else np.int32
        data = Dataset(
            torch.from_numpy(encoded.states.astype(dtype)),
            self.num_states,
            missing=missing if bool(missing.any()) else None,
            sizes=self.sizes,
            source=raw,
        )
        return data, _problem_lines([*raw.problems, *encoded.problems])

    def filled(self, data: Dataset, observed: Tensor) -> Tensor:
        if data.source is None:
            return super().filled(data, observed)
        return torch.from_numpy(drawn_cells(self.encoder, data.source, observed.cpu().numpy()))

    def describe(self) -> list[str]:
        """Return the table of column types, of which a very wide table shows the first columns."""
        head, *columns, note = self.encoder.describe()
        if len(columns) > _MOST_COLUMNS:
            kinds = Counter(column.encoder.type for column in self.encoder.columns[_MOST_COLUMNS:])
            rest = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
            columns = [*columns[:_MOST_COLUMNS], f"and {len(columns) - _MOST_COLUMNS:,} more columns: {rest}"]
        return [head, *columns, note]

    def refit(self, data: Dataset) -> TableFormat:
        return self if data.source is None else replace(self, encoder=self.encoder.refit(data.source))

    def dependencies(self, data: Dataset) -> list[Dependency]:
        columns = [self.encoder.columns[place] for place in self.encoder.sites]
        return find_dependencies(columns, data.rows(torch.arange(len(data))).numpy(), (~data.known()).numpy())

    def encode_again(self, data: Dataset) -> Dataset:
        return data if data.source is None else replace(self.encode(data.source)[0], condition=data.condition)

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        path = folder / f"{stem}{self.suffix}"
        decoded = self.decode(x, first=first, seed=seed)
        if self.suffix == ".parquet":
            return [write_parquet(to_frame(decoded), path)]
        text = io.StringIO(newline="")
        write_delimited(decoded, text)
        return [write_text(text, decoded.dialect, path)]

    def write_completed(
        self, x: Tensor, observed: Tensor, data: Dataset, folder: Path, *, stem: str = "completed", seed: int = 0
    ) -> list[Path]:
        source = data.source
        if source is None:
            return self.write(x, folder, stem=stem, seed=seed)
        decoded = self.decode(x, seed=seed)
        drawn = drawn_cells(self.encoder, source, observed.numpy())
        if source.frame is not None:
            frame = completed_frame(self.encoder, source, decoded, drawn)
            return [write_parquet(frame, folder / f"{stem}.parquet")]
        suffix = Path(source.name).suffix.lower()
        path = folder / f"{stem}{suffix if suffix in SUFFIXES else '.csv'}"
        dialect, text = source.dialect or self.encoder.dialect, io.StringIO(newline="")
        write_texts(completed_texts(self.encoder, source, decoded, drawn), dialect, text, names=source.headers)
        return [write_text(text, dialect, path)]

    def frame(self, x: Tensor, *, seed: int = 0) -> Any:
        """Return states as a pandas frame with the names and types of the table.

        Args:
            x: States, (n, sites).
            seed: The seed of values inside bins. Default: 0.
        """
        return to_frame(self.decode(x, seed=seed))

    def completed(self, x: Tensor, observed: Tensor, source: RawTable, *, seed: int = 0) -> Any:
        """Return completed rows as a frame, in which given cells are as they were.

        Args:
            x: States, (n, sites).
            observed: Which cells the user did not ask to draw, bool (n, sites).
            source: The rows as they were given.
            seed: The seed of values inside bins. Default: 0.
        """
        drawn = drawn_cells(self.encoder, source, observed.cpu().numpy())
        return completed_frame(self.encoder, source, self.decode(x, seed=seed), drawn)

    def decode(self, x: Tensor, *, first: int = 0, seed: int = 0) -> DecodedTable:
        """Return the values of states.

        Args:
            x: States, (n, sites).
            first: The number of the first row, for running numbers. Default: 0.
            seed: The seed of values inside bins. Default: 0.
        """
        generator = np.random.default_rng(derive_seed(seed, "cells", first))
        return self.encoder.decode(self.check(x).numpy(), generator, first=first)

    def log_density(self, data: Dataset) -> Tensor | None:
        if data.source is None:
            return None
        return torch.from_numpy(self.encoder.log_density(data.source))

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        decoded = self.decode(x[:n], seed=seed)
        texts = {
            column.name: column.texts(values, missing)
            for column, values, missing in zip(decoded.columns, decoded.values, decoded.missing, strict=True)
        }
        return preview_texts(texts, self.encoder.dialect)

    def preview_file(self, path: Path, n: int) -> str:
        """Return the first rows of a file as text for a terminal.

        Args:
            path: A file that this format has written.
            n: How many rows, at most.
        """
        raw = self._read(path)
        rows = raw.select(np.arange(min(n, raw.num_rows)))
        return preview_texts(
            {name: cells.texts().tolist() for name, cells in rows.columns.items()}, self.encoder.dialect
        )

    def config(self) -> dict[str, Any]:
        missing = None if self.missing is None else list(self.missing)
        return {"kind": self.kind, **self.encoder.config(), "suffix": self.suffix, "missing": missing}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TableFormat:
        """Return the format that :meth:`config` described, also one of an earlier version.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no table.
        """
        if "categories" in config:
            return cls(encoder_of_categories(config))
        given = {name: value for name, value in config.items() if name != "kind"}
        fields = Fields(given, ("columns", "dialect", "suffix", "missing"), "a form of kind 'table'")
        marks = None
        if given["missing"] is not None:
            marks = fields.items("missing", lambda v: v if isinstance(v, str) else None, 1000, "a text")
        encoder = TableEncoder.from_config({name: given[name] for name in ("columns", "dialect")})
        return cls(encoder, fields.text("suffix", 10), marks)

    def with_frame_types(self, types: Sequence[str], labels: Sequence[str]) -> TableFormat:
        """Return the format of a model of an earlier version, which was fitted on a frame.

        Args:
            types: The types of the columns: int, float, bool or text.
            labels: The types of their names, int or text; may be empty.
        """
        return replace(self, encoder=with_frame_types(self.encoder, types, labels))

    def _read(self, path: Path) -> RawTable:
        if path.suffix.lower() == ".parquet":
            return read_table(path)
        dialect, names = self.encoder.dialect, set(self.site_names)
        # The delimiter of training first: it may be one that the user gave, because it cannot be detected.
        try:
            raw = read_table(path, header=dialect.header, missing=self.missing, delimiter=dialect.delimiter)
        except TableError:
            raw = None
        if raw is not None and names <= set(raw.columns):
            return raw
        return read_table(path, header=dialect.header, missing=self.missing)


def load_table(
    raw: RawTable,
    *,
    drop: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    bins: int = BINS,
    model_missing: bool = False,
    keep_rare: bool = False,
    name: str | None = None,
    wrong: Sequence[Problem] = (),
) -> LoadedData:
    """Return the rows of a table, their format, and a report of the column types and all problems.

    Args:
        raw: The columns as they were read.
        drop: Names of columns to leave out.
        types: Types by column name instead of the detected ones.
        bins: Quantile bins per column of numbers or dates. Default: 100.
        model_missing: Learn where values are missing, as a state of their own. Default: false.
        keep_rare: Store rare categories, so that samples contain them. Default: false.
        name: The table in the report. Default: as in messages.
        wrong: Problems of other arguments, which are raised together with those that are found here. Default: none.

    Raises:
        ValueError: The table cannot be used; all problems are listed.
    """
    check_arguments(types=types, bins=bins)
    rows = raw.without(drop).drop_empty_rows()
    types = dict(types or {})
    wrong = [*wrong, *(contradiction(column) for column in types if column in drop)]
    try:
        encoder = TableEncoder.fit(
            rows,
            types={column: type_ for column, type_ in types.items() if column not in drop},
            bins=bins,
            model_missing=model_missing,
            keep_rare=keep_rare,
            drop=[column for column in drop if column not in raw.columns],
        )
    except TableError as error:
        raise TableError(raw.name, [*wrong, *error.problems]) from error
    if wrong:
        raise TableError(raw.name, wrong)
    data, problems = TableFormat(encoder).encode(rows, training=True)
    count = f"{len(encoder.sites):,} of {len(encoder.columns):,} columns are modelled"
    report = [f"{raw.name if name is None else name}: {len(data):,} rows; {count}", *TableFormat(encoder).describe()]
    if raw.note:
        report.append(raw.note)
    if data.missing is not None:
        report.append(f"{int(data.missing.sum()):,} of {data.missing.numel():,} cells are missing")
    if drop:
        report.append(f"left out: {', '.join(drop)}")
    if raw.unused_marks:
        report.append(
            f"no cell is {' or '.join(map(repr, raw.unused_marks))}: check the spelling of --missing (missing=)"
        )
    return LoadedData(data, TableFormat(encoder), [*report, *problems])


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    lines = [str(problem) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"and {len(problems) - _MOST_PROBLEMS:,} more problems")
    return lines
