"""All columns of a table: fit, encode, decode, save and describe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tauleap._files.printable import one_line
from tauleap.data import limits
from tauleap.data.table.columns.cells import Cells, solitary_marks
from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.condition import conditions_of
from tauleap.data.table.columns.detect import Detected, as_type, detect, type_problems
from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.fields import Fields, short
from tauleap.data.table.columns.fit import fit_column
from tauleap.data.table.columns.frame_types import column_name
from tauleap.data.table.columns.number import BINS, MOST_BINS
from tauleap.data.table.columns.raw import Problem, RawTable, TableError, type_remedy
from tauleap.data.table.columns.report import describe, nothing_to_learn, unreadable_cells

MOST_COLUMNS = 10_000
_HALF = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile("0|-?[1-9][0-9]*")


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Hold the states of a table.

    Args:
        states: int32 (rows, sites), 0 where missing.
        missing: Whether the cell is missing, (rows, sites).
        unreadable: Whether the cell has a value that could not be read and counts as missing, (rows, sites).
        problems: The unreadable cells, for the user.
    """

    states: np.ndarray
    missing: np.ndarray
    unreadable: np.ndarray
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, eq=False)
class DecodedTable:
    """Hold the values of a table in the types of its encoders.

    Args:
        columns: The columns, in order.
        values: Per column, one value per row.
        missing: Per column, whether the value is missing.
        dialect: How a file of this table is written.
    """

    columns: tuple[Column, ...]
    values: tuple[np.ndarray, ...]
    missing: tuple[np.ndarray, ...]
    dialect: Dialect


@dataclass(frozen=True)
class TableEncoder:
    """Encode the rows of a table as states; each column with two states or more is a site.

    Make it with :meth:`fit`.

    Args:
        columns: The columns, in the order of the table.
        dialect: How a file of this table is written.
        bins: Quantile bins per column that :meth:`refit` uses. Not saved.

    >>> from tauleap.data.table.columns import Cells
    >>> raw = RawTable({"age": Cells.from_texts(["31", "42", "31"]), "unit": Cells.from_texts(["kg"] * 3)})
    >>> encoder = TableEncoder.fit(raw)
    >>> encoder.sizes, encoder.encode(raw).states.tolist()
    ((2,), [[0], [1], [0]])
    >>> TableEncoder.from_config(encoder.config()) == encoder
    True
    """

    columns: tuple[Column, ...]
    dialect: Dialect = Dialect()  # noqa: RUF009 (frozen)
    bins: int = field(default=BINS, compare=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise ValueError("a table must have one or more columns, and their names must differ")
        if broken := [name for name in names if _HALF.search(name)]:
            raise ValueError(
                f"the name {short(broken[0])} of a column has half of a character (a lone surrogate): rename it"
            )
        types = {column.name: column.frame_type for column in self.columns if column.frame_type is not None}
        whole = [name for name, type_ in types.items() if type_.label is True]
        if wrong := [name for name in whole if len(name) > 20 or not _WHOLE.fullmatch(name)]:
            raise ValueError(f"the name {short(wrong[0])} of a column must be a whole number")
        if wrong := [name for name, type_ in types.items() if column_name(type_.label_of(name)) != name]:
            raise ValueError(f"the name {short(wrong[0])} of a column must be the text of its label in a frame")
        if max(self.sizes, default=1) < 2:
            raise ValueError("a table must have a column with two values or more: there is nothing to learn otherwise")

    @classmethod
    def fit(
        cls,
        raw: RawTable,
        *,
        types: Mapping[str, str] | None = None,
        bins: int = BINS,
        model_missing: bool = False,
        keep_rare: bool = False,
        max_categories: int = limits.CATEGORIES,
        drop: Sequence[str] = (),
    ) -> TableEncoder:
        """Return the encoder of a table.

        Args:
            raw: The table.
            types: Types by column name instead of the detected ones: number, category, date, boolean, constant, id,
                text, or ``date:FORMAT``.
            bins: Quantile bins per column of numbers or dates, 2 to 10,000. Default: 100.
            model_missing: Learn where values are missing, as a state of their own. Default: false.
            keep_rare: Store rare categories of columns above ``max_categories``, so that output contains them. They may
                be personal data. Default: false, output has ``(other)``.
            max_categories: States of a category at most. Default: 1,000.
            drop: Columns to leave out. Default: none.

        Returns:
            The encoder; ``columns[i].reason`` explains each type.

        Raises:
            TableError: The table has no rows, or nothing to learn, or a column or type does not exist; it lists all
                problems.
            ValueError: ``max_categories`` is out of range.
        """
        names, types = list(raw.columns), dict(types or {})
        if max_categories < 2:
            raise ValueError(f"max_categories must be a whole number >= 2, got {max_categories}")
        if raw.num_rows == 0:
            raise TableError(raw.name, [*raw.problems, Problem("there are no rows", "add rows with values")])
        wrong = [
            Problem(
                f"there is no column {short(name)} to leave out", f"write one of {one_line(', '.join(names), most=500)}"
            )
            for name in drop
            if name not in names
        ]
        if not 2 <= bins <= MOST_BINS:
            # The other problems are found with the default.
            wrong.append(
                Problem(f"bins must be 2..{MOST_BINS:,}, got {bins}", "write --bins 100, or bins=100 in Python")
            )
            bins = BINS
        bad_types = type_problems(types, names)
        wrong += bad_types.values()
        columns: list[Column] = []
        for name in names:
            if name in drop or name in bad_types:
                continue
            try:
                found = _type_of(name, raw, types.get(name))
                column = fit_column(
                    name,
                    found,
                    bins=bins,
                    most=max_categories,
                    keep_rare=keep_rare,
                    missing_state=model_missing,
                    frame_type=raw.frame_types.get(name),
                    header=raw.headers.get(name),
                )
            except ValueError as error:
                message = str(error).removeprefix(f"column {name!r} ")
                wrong.append(Problem(message, _type_that_fits(name, raw, types.get(name, "")), column=name))
                continue
            columns.append(column)
        problems = [*wrong, *raw.problems]
        if wrong:
            raise TableError(raw.name, problems)
        if not any(column.num_states > 1 for column in columns):
            raise TableError(raw.name, [*problems, nothing_to_learn(columns)])
        return cls(tuple(columns), raw.dialect or Dialect(), bins)

    def refit(self, raw: RawTable) -> TableEncoder:
        """Return the encoder with the bins of other rows; types, formats and categories stay as they are.

        Held-out rows that had a part in the bins would seem more probable than fresh rows.

        Args:
            raw: Rows of the same table, such as those to train on.
        """
        columns = (
            column.refit(raw.columns[column.name], self.bins).without_rare_labels(
                raw.columns[column.name], raw.frame_types.get(column.name)
            )
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    def conditioned(self, given: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder whose columns decode to allowed values only; see :func:`conditions_of`.

        Args:
            given: Conditions by the names of columns: a value, a list of values, a range ``(low, high)``, or None.

        Raises:
            ValueError: Conditions that the table cannot fulfil; all of them are named.
        """
        found = conditions_of({column.name: column for column in self.columns}, given)
        columns = (replace(column, condition=found.get(column.name)) for column in self.columns)
        return replace(self, columns=tuple(columns))

    @property
    def sites(self) -> tuple[int, ...]:
        """The positions of the columns that are sites of the model."""
        return tuple(place for place, column in enumerate(self.columns) if column.modelled)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of states per site."""
        return tuple(column.num_states for column in self.columns if column.modelled)

    def encode(self, raw: RawTable, *, training: bool = False) -> EncodedTable:
        """Return the states of a table, whose columns are found by name.

        Args:
            raw: A table with every modelled column; others are ignored.
            training: Whether the types of columns can still be changed, for the remedies of problems. Default: false.

        Returns:
            The states, the missing cells, and all cells that could not be read.

        Raises:
            TableError: Columns are missing; it lists all of them.
        """
        chosen = [self.columns[place] for place in self.sites]
        absent = [column.name for column in chosen if column.name not in raw.columns]
        if absent:
            remedy = "add a column of empty cells if its values are to be filled in"
            raise TableError(raw.name, [Problem("the column does not exist", remedy, column=name) for name in absent])
        states = np.zeros((raw.num_rows, len(chosen)), dtype=np.int32)
        missing = np.zeros(states.shape, dtype=bool)
        unreadable = np.zeros_like(missing)
        problems: list[Problem] = []
        for site, column in enumerate(chosen):
            cells = readable_cells(column, raw)
            states[:, site], missing[:, site], bad = column.adapted(cells, raw.decimal, writes=False).encode(cells)
            if bad:
                unreadable[:, site] = np.isin(cells.codes, bad)
            problems += unreadable_cells(column, raw, cells, bad, training=training)
        return EncodedTable(states, missing, unreadable, tuple(problems))

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None, *, first: int = 0) -> DecodedTable:
        """Return the values of states, with all columns of the table.

        Args:
            states: Whole numbers (rows, sites).
            rng: The source of randomness. Default: a new one without a seed.
            first: Rows that came before, for running numbers. Default: 0.

        Returns:
            The values of every column in order.

        Raises:
            ValueError: The shape or a state does not fit the table.
        """
        states = np.asarray(states)
        if states.ndim != 2 or states.shape[1] != len(self.sites):
            raise ValueError(f"states must have shape (rows, {len(self.sites)}), got {states.shape}")
        beyond = (states < 0) | (states >= np.array(self.sizes))
        if beyond.any():
            row, site = np.argwhere(beyond)[0].tolist()
            name, size = self.columns[self.sites[site]].name, self.sizes[site]
            raise ValueError(f"row {row}, column {name!r}: state {states[row, site]} is not one of 0..{size - 1}")
        generator = np.random.default_rng() if rng is None else rng
        # Each column has its own generator, so that the first rows are the same however many rows follow.
        seeds = generator.integers(2**32, size=(len(self.columns), 2))
        zeros = np.zeros(len(states), dtype=np.int64)
        place = {column: site for site, column in enumerate(self.sites)}
        pairs = [
            column.decode(
                states[:, place[i]] if i in place else zeros, np.random.default_rng(seeds[i].tolist()), first=first
            )
            for i, column in enumerate(self.columns)
        ]
        values, missing = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
        return DecodedTable(self.columns, values, missing, self.dialect)

    def log_density(self, raw: RawTable) -> np.ndarray:
        """Return the natural logarithm of the probability of every value given its state.

        The bits of a row are those of its states minus the sum of these logarithms, divided by ln 2.

        Args:
            raw: A table with every modelled column.

        Returns:
            The logarithms (rows, sites), 0 for categories, booleans and missing cells.
        """
        chosen = [self.columns[place] for place in self.sites]
        cells = [readable_cells(column, raw) for column in chosen]
        adapted = [column.adapted(own, raw.decimal, writes=False) for column, own in zip(chosen, cells, strict=True)]
        return np.stack([column.log_density(own) for column, own in zip(adapted, cells, strict=True)], axis=1)

    def describe(self) -> list[str]:
        """Return one line per column: name, type, number of states and reason, and the way to change a type."""
        return describe(self.columns)

    def config(self) -> dict[str, Any]:
        """Return the encoder as JSON can hold it."""
        return {"columns": [column.config() for column in self.columns], "dialect": self.dialect.config()}

    @classmethod
    def from_config(cls, config: object) -> TableEncoder:
        """Return the encoder that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no table.
        """
        fields = Fields(config, ("columns", "dialect"), "a table")
        columns = fields.config["columns"]
        if not isinstance(columns, list | tuple) or len(columns) > MOST_COLUMNS:
            raise ValueError(f"columns of a table must be a list of at most {MOST_COLUMNS:,} columns")
        return cls(tuple(map(Column.from_config, columns)), Dialect.from_config(fields.config["dialect"]))


def _type_that_fits(name: str, raw: RawTable, given: str) -> str:
    """Return what a user can write instead of a type that a column does not have."""
    found = _type_of(name, raw, None).type
    if found not in ("number", "date", "boolean", "category") or found == given:
        found = "category"
    return type_remedy(name, found)


def _type_of(name: str, raw: RawTable, given: str | None) -> Detected:
    cells, frame_type = raw.columns[name], raw.frame_types.get(name)
    # Among texts "?" may stand for a missing value, in files and in frames that were read from them.
    marks = raw.missing is None and cells.kind == "text"
    if given is not None:
        return as_type(name, cells, given, decimal=raw.decimal, marks=marks)
    if frame_type is not None and frame_type.name == "category" and len(cells.values) > 1:
        return Detected("category", f"a categorical column, {len(cells.values):,} categories", cells)
    if frame_type is not None and frame_type.name.startswith(("interval", "period")) and cells.kind == "object":
        return Detected(
            "category" if len(cells.values) > 1 else "constant", f"{len(cells.values):,} distinct values", cells
        )
    if cells.kind == "text" and frame_type is not None and frame_type.objects == "mixed":
        return Detected("text", "the cells have lists or other objects", cells)
    return detect(name, cells, decimal=raw.decimal, marks=marks)


def readable_cells(column: Column, raw: RawTable) -> Cells:
    """Return the cells of a column, in which marks such as "?" are missing if it is a column of numbers or dates.

    Args:
        column: The column.
        raw: A table that has it. Marks beside those that the user gave are values.
    """
    cells = raw.columns[column.name]
    has_marks = raw.missing is None and cells.kind == "text"
    if not has_marks or column.encoder.type not in ("number", "date"):
        return cells
    found = cells.remember("marks", lambda: solitary_marks(cells.values.tolist()))
    marks = found | ({column.marker} - {""})
    return cells.without(marks) if marks else cells
