"""One column of a table: its encoder, and how its cells are read and written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tauleap.data.table.columns.boolean import BooleanEncoder
from tauleap.data.table.columns.category import CategoryEncoder, spelling
from tauleap.data.table.columns.cells import Cells, objects
from tauleap.data.table.columns.condition import AllowedValues
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.date_text import DateFormat, date_format
from tauleap.data.table.columns.durations import convert_unit, duration_texts, parse_durations
from tauleap.data.table.columns.fields import Fields, short
from tauleap.data.table.columns.frame_types import FrameType
from tauleap.data.table.columns.number import NumberEncoder
from tauleap.data.table.columns.number_text import NumberFormat, number_format
from tauleap.data.table.columns.unmodelled import ConstantColumn, FreeTextColumn, IdentifierColumn

Encoder = (
    NumberEncoder | CategoryEncoder | DateEncoder | BooleanEncoder | ConstantColumn | IdentifierColumn | FreeTextColumn
)
_ENCODERS: tuple[type[Encoder], ...] = (
    *(NumberEncoder, CategoryEncoder, DateEncoder, BooleanEncoder),
    *(ConstantColumn, IdentifierColumn, FreeTextColumn),
)


@dataclass(frozen=True)
class Column:
    """Encode and decode one column of files and frames.

    Args:
        name: The name.
        encoder: The encoder of its values.
        number: How a file writes its numbers. Default: with a decimal point.
        marker: How a file writes missing values. Default: as an empty cell.
        missing_state: Whether "missing" is the last state. Default: false, missing cells are excluded.
        frame_type: The pandas type. Default: none, the column comes from a file.
        header: The name in files, if it is another one. Default: None, it is ``name``.
        reason: Why it has its type. Not saved.
        date: How a file writes its dates, if that differs from the encoder's format; see :meth:`adapted`. Not saved.
        condition: The values that decoding may return. Default: none, all values. Not saved.

    >>> column = Column("age", NumberEncoder.fit(np.array([31, 42, 31])), missing_state=True)
    >>> states, missing, _ = column.encode(Cells.from_texts(["42", "NA"]))
    >>> states.tolist(), missing.tolist(), column.decode(states)[0].tolist()
    ([1, 2], [False, False], [42, 31])
    """

    name: str
    encoder: Encoder
    number: NumberFormat = NumberFormat()  # noqa: RUF009 (frozen)
    marker: str = ""
    missing_state: bool = False
    frame_type: FrameType | None = None
    header: str | None = None
    reason: str = field(default="", compare=False)
    date: DateFormat | None = field(default=None, compare=False)
    condition: AllowedValues | None = field(default=None, compare=False)

    @property
    def num_states(self) -> int:
        """The number of states, with that of missing values."""
        return self.encoder.num_states + self.missing_state

    @property
    def modelled(self) -> bool:
        """Whether the column is a site of the model: one with two states or more, or a column of categories."""
        # Models of earlier versions have sites of one category; a new encoder makes a constant of such a column.
        return self.num_states >= 2 or isinstance(self.encoder, CategoryEncoder)

    def refit(self, cells: Cells, bins: int) -> Column:
        """Return the column with the bins and frequent categories of other rows; its type and format stay.

        Args:
            cells: The cells of those rows.
            bins: Quantile bins of numbers and dates.
        """
        if not self.modelled or isinstance(self.encoder, BooleanEncoder):
            return self
        values, readable = self.convert(cells)
        counts = np.where(readable, cells.counts, 0)
        if isinstance(self.encoder, NumberEncoder | DateEncoder):
            return replace(self, encoder=self.encoder.refit(values, counts=counts, bins=bins))
        if isinstance(self.encoder, CategoryEncoder):
            return replace(self, encoder=self.encoder.refit(values, counts=counts, order=not self._has_own_order))
        return self

    def without_rare_labels(self, cells: Cells, frame_type: FrameType | None) -> Column:
        """Return the column whose pandas type does not name rare categories, which may be personal data.

        Args:
            cells: The cells of the column in a frame.
            frame_type: The pandas type of the column in this frame, with all categories.
        """
        if not isinstance(self.encoder, CategoryEncoder) or self.encoder.other is None or frame_type is None:
            return self
        # By type and value, because True equals 1.
        stored = {(type(value), value) for value in (*self.encoder.categories, *self.encoder.rare)}
        rare = {(type(value), value) for value in cells.values.tolist()} - stored
        categories = tuple(value for value in frame_type.categories if (type(value), value) not in rare)
        return replace(self, frame_type=replace(frame_type, categories=categories))

    def adapted(self, cells: Cells, decimal: str | None = None, *, writes: bool = True) -> Column:
        """Return the column with the number format, date format and marker of a file that may differ from training.

        The formats of training remain if they fit all cells.

        Args:
            cells: The cells of the column in that file.
            decimal: The decimal separator of the file, "." or ",". Default: unknown.
            writes: Whether the column is to write numbers, too; otherwise their format is not examined. Default: true.

        Returns:
            The column, which reads these cells and writes others in their format.
        """
        if cells.kind not in ("text", "object") or len(cells.values) == 0:
            return self
        if not writes and self.convert(cells)[1].all():
            return self
        column = replace(self, marker=cells.marker) if cells.num_known < cells.num_rows else self
        if isinstance(self.encoder, NumberEncoder) and not self._unit:
            texts = _texts(cells)
            valid = self.number.matches(texts)
            best = self.number.described(texts, valid)
            if not valid.all():
                other = number_format(texts, decimal=decimal, least=1e-9)
                best = other[0] if other is not None and other[1].sum() > valid.sum() else best
            return replace(column, number=best)
        if isinstance(self.encoder, DateEncoder):
            return replace(column, date=_adapted_date(self.encoder.date_format, _texts(cells), decimal))
        return column

    def encode(self, cells: Cells) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Return the state of every row.

        Args:
            cells: Cells of a file or a frame, in any type that can be converted.

        Returns:
            int64 states, 0 where missing; whether the cell is missing; and the positions of distinct values that the
            column cannot read, which count as missing.
        """
        values, readable = self.convert(cells)
        states, unknown = self.encoder.encode(values)
        unknown = unknown | ~readable
        bad = np.flatnonzero(unknown).tolist() if not isinstance(self.encoder, FreeTextColumn) else []
        table = np.append(states, 0)[cells.codes]
        missing = np.append(unknown, True)[cells.codes]
        if not self.modelled:
            return np.zeros_like(table), np.zeros_like(missing), []
        if self.missing_state:
            return np.where(missing, self.encoder.num_states, table), np.zeros_like(missing), bad
        return np.where(missing, 0, table), missing, bad

    def decode(
        self, states: np.ndarray, rng: np.random.Generator | None = None, *, first: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return one value per state.

        Args:
            states: Whole numbers of ``0 .. num_states - 1``.
            rng: The source of randomness. Default: a new one without a seed.
            first: Rows that came before, for running numbers. Default: 0.

        Returns:
            The values in the type of the encoder, and whether they are missing.
        """
        missing = states >= self.encoder.num_states
        inner = np.where(missing, 0, states)
        if isinstance(self.encoder, IdentifierColumn):
            return self.encoder.decode(inner, first=first), missing
        if self.condition is not None:
            return self.condition.decode(self.encoder, inner, rng), missing
        values = self.encoder.decode(inner, rng)
        if isinstance(self.encoder, FreeTextColumn) or (
            isinstance(self.encoder, ConstantColumn) and self.encoder.value is None
        ):
            missing = np.ones(len(states), dtype=bool)
        return values, missing

    def texts(self, values: np.ndarray, missing: np.ndarray) -> list[str]:
        """Return values as a file writes them.

        Args:
            values: What :meth:`decode` returned.
            missing: Whether each value is missing.
        """
        if self._unit:
            written = duration_texts(values, self._unit)
        elif isinstance(self.encoder, NumberEncoder):
            written = self.number.write(values, self.encoder.decimals)
        elif isinstance(self.encoder, DateEncoder):
            shift = self._zone_shift
            written = self._date_format.write(values + shift if shift else values)
        elif isinstance(self.encoder, BooleanEncoder):
            written = [self.encoder.words[int(value)] for value in values.tolist()]
        else:
            written = ["" if value is None else str(value) for value in values.tolist()]
        if not missing.any():
            return written
        return [self.marker if is_missing else text for text, is_missing in zip(written, missing.tolist(), strict=True)]

    def log_density(self, cells: Cells) -> np.ndarray:
        """Return the natural logarithm of the probability of every value given its state, 0 where it has no density.

        Args:
            cells: The cells of the column.
        """
        values, readable = self.convert(cells)
        _, unknown = self.encoder.encode(values)
        known = np.where(readable & ~unknown, self.encoder.log_density(values), 0.0)
        return np.append(known, 0.0)[cells.codes]

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return {
            "name": self.name,
            "encoder": self.encoder.config(),
            "number": self.number.config(),
            "marker": self.marker,
            "missing_state": self.missing_state,
            "frame_type": None if self.frame_type is None else self.frame_type.config(),
            "header": self.header,
        }

    @classmethod
    def from_config(cls, config: object) -> Column:
        """Return the column that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no column; the message names the column.
        """
        names = ("name", "encoder", "number", "marker", "missing_state", "frame_type", "header")
        fields = Fields(config, names, "a column")
        name = fields.text("name", 10_000)
        encoder, frame_type = fields.config["encoder"], fields.config["frame_type"]
        kinds = {kind.type: kind for kind in _ENCODERS}
        given = encoder.get("type") if isinstance(encoder, dict) else None
        if not isinstance(given, str) or given not in kinds:
            raise ValueError(f"column {short(name)} must have an encoder of type {', '.join(kinds)}")
        try:
            return cls(
                name,
                kinds[given].from_config(encoder),
                NumberFormat.from_config(fields.config["number"]),
                fields.text("marker"),
                fields.flag("missing_state"),
                None if frame_type is None else FrameType.from_config(frame_type),
                None if fields.config["header"] is None else fields.text("header", 10_000),
            )
        except ValueError as error:
            raise ValueError(f"column {short(name)}: {error}") from error

    def convert(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct values in the type that the encoder takes, and which of them have this type.

        Args:
            cells: Cells of a file or a frame.
        """
        every = np.ones(len(cells.values), dtype=bool)
        if isinstance(self.encoder, NumberEncoder):
            return self._numbers(cells)
        if isinstance(self.encoder, DateEncoder):
            return self._dates(cells)
        if isinstance(self.encoder, BooleanEncoder):
            return objects(cells.values.tolist()), every
        if isinstance(self.encoder, CategoryEncoder) and cells.kind == "date":
            return objects([str(value) for value in cells.values]), every
        return objects(cells.values.tolist()), every

    def values_of(self, cells: Cells) -> np.ndarray | None:
        """Return the distinct values of cells as :meth:`decode` returns values, or None if some cannot be read.

        Args:
            cells: Cells of a file or a frame. Rare categories are returned as they are.
        """
        values, readable = self.convert(cells)
        states, unknown = self.encoder.encode(values)
        if not readable.all() or unknown.any():
            return None
        if isinstance(self.encoder, BooleanEncoder):
            return states == 1
        if isinstance(self.encoder, CategoryEncoder):
            own = self.encoder.categories
            return objects([own[state] if state < len(own) else values[i] for i, state in enumerate(states.tolist())])
        return values

    def _numbers(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        unit = self._unit
        if bool(unit) != bool(cells.unit) and cells.kind != "text":
            return np.full(len(cells.values), np.nan), np.zeros(len(cells.values), dtype=bool)
        if unit and cells.kind == "number":
            return convert_unit(cells.values, cells.unit, unit), np.ones(len(cells.values), dtype=bool)
        if unit:
            return cells.remember(unit, lambda: parse_durations(_texts(cells), unit))
        if cells.kind in ("number", "boolean"):
            values = cells.values.astype(np.int64) if cells.kind == "boolean" else cells.values
            return values, np.ones(len(values), dtype=bool)
        if cells.kind == "date":
            return np.full(len(cells.values), np.nan), np.zeros(len(cells.values), dtype=bool)
        return cells.remember(self.number, lambda: self.number.parse(_texts(cells)))

    def _dates(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        if cells.kind == "date":
            values = cells.values
            if cells.is_utc and isinstance(self.encoder, DateEncoder):
                values = values + self.encoder.date_format.offset
            return values, np.ones(len(values), dtype=bool)
        values, valid = cells.remember(self._date_format, lambda: self._date_format.parse(_texts(cells)))
        return values - self._zone_shift, valid

    @property
    def _unit(self) -> str:
        """The unit of a column of durations, else empty."""
        whole = isinstance(self.encoder, NumberEncoder) and self.encoder.integer and not any(self.encoder.infinite)
        return self.frame_type.unit if whole and self.frame_type is not None else ""

    @property
    def _date_format(self) -> DateFormat:
        assert isinstance(self.encoder, DateEncoder)
        return self.encoder.date_format if self.date is None else self.date

    @property
    def _zone_shift(self) -> np.timedelta64:
        """The difference between the time zones of the file and of the encoder, 0 if one of them has none."""
        assert isinstance(self.encoder, DateEncoder)
        if self.date is None or not self.date.zone or not self.encoder.zone:
            return np.timedelta64(0, "m")
        return self.date.offset - self.encoder.date_format.offset

    @property
    def _has_own_order(self) -> bool:
        return self.frame_type is not None and self.frame_type.name == "category"


def _texts(cells: Cells) -> list[str]:
    return cells.values.tolist() if cells.kind == "text" else [spelling(value) for value in cells.values.tolist()]


def _adapted_date(own: DateFormat, texts: list[str], decimal: str | None) -> DateFormat:
    """Return the format of dates in a file: the own one if it fits, with the time zone of the file."""
    valid = own.parse(texts)[1]
    best = own if not valid.any() else replace(own.described(texts), first_year=own.first_year)
    if valid.all():
        return best
    other = date_format(texts, day_first=decimal == "," or own.is_day_first, least=1e-9)
    if other is None or other.parse(texts)[1].sum() <= valid.sum():
        return best
    return replace(other, first_year=own.first_year) if "%y" in own.text else other
