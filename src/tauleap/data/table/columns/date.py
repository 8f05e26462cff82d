"""Encode dates and times as whole numbers and these as states; decoded dates have the format of the column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tauleap.data.table.columns.date_text import FIRST_YEAR, DateFormat
from tauleap.data.table.columns.fields import Fields, as_config
from tauleap.data.table.columns.number import BINS, NumberEncoder

UNITS = ("Y", "M", "D", "h", "m", "s", "ms", "us", "ns")
"""Units of numpy's datetime64, from years to nanoseconds."""
_ISO_DAY = "%Y-%m-%d"


@dataclass(frozen=True)
class DateEncoder:
    """Encode dates: each is a whole number of the column's unit since 1970, which a number encoder maps to a state.

    Create it with :meth:`fit`.

    Args:
        numbers: The encoder of the whole numbers.
        unit: The coarsest unit that all dates are whole numbers of: Y, M, D, h, m, s, ms, us or ns.
        format: The format of dates in files, in the codes of :class:`DateFormat`.
        zone: The time zone of the dates as files write it, such as ``+02:00``. Default: none.
        first_year: The first of the hundred years that years of two digits stand for. Default: 1950.

    >>> encoder = DateEncoder.fit(np.array(["2024-02-01", "2024-02-03"], dtype="datetime64[us]"))
    >>> encoder.unit, encoder.encode(np.array(["2024-02-03", "NaT"], dtype="datetime64[s]"))
    ('D', (array([1, 0]), array([False,  True])))
    >>> encoder.decode(np.array([0])).tolist()
    [datetime.date(2024, 2, 1)]
    """

    type: ClassVar[str] = "date"
    numbers: NumberEncoder
    unit: str
    format: str
    zone: str = ""
    first_year: int = FIRST_YEAR

    def __post_init__(self) -> None:
        if self.unit not in UNITS or not self.numbers.integer or any(self.numbers.infinite):
            raise ValueError(
                f"a date encoder must have finite whole numbers, and a unit of {', '.join(UNITS)}, got the unit "
                f"{self.unit!r}"
            )
        DateFormat(self.format, self.zone, self.first_year)

    @classmethod
    def fit(
        cls,
        values: np.ndarray,
        *,
        counts: np.ndarray | None = None,
        bins: int = BINS,
        format: DateFormat | None = None,
        zone: str = "",
        is_time: bool = False,
    ) -> DateEncoder:
        """Return the encoder of a column.

        Args:
            values: datetime64; NaT is left out.
            counts: Rows per value. Default: 1 each.
            bins: Quantile bins, 2 to 10,000. Default: 100.
            format: The format in files. Default: ISO 8601 to the column's unit.
            zone: The time zone of the default format, such as ``+00:00``. Default: none.
            is_time: Whether the default format has the time of day alone, without a date. Default: false.

        Returns:
            The encoder.

        Raises:
            ValueError: There is no date, or ``bins`` is out of range.
        """
        known = ~np.isnat(values)
        if not known.any():
            raise ValueError("a date encoder needs one date or more")
        unit = _coarsest_unit(values[known])
        weights = None if counts is None else np.asarray(counts)[known]
        numbers = NumberEncoder.fit(_since_1970(values[known], unit), counts=weights, bins=bins)
        clock = {"Y": "", "M": "", "D": "", "h": " %H:%M", "m": " %H:%M", "s": " %H:%M:%S", "ms": " %H:%M:%S.%3f"}
        clock |= {"us": " %H:%M:%S.%6f", "ns": " %H:%M:%S.%9f"}
        if format is None and is_time:
            format = DateFormat(clock[unit].strip() if unit in ("s", "ms", "us", "ns") else "%H:%M:%S")
        if format is None:
            time = (clock[unit] or " %H:%M") + "%z" if zone else clock[unit]
            format = DateFormat(_ISO_DAY + time, zone)
        return cls(numbers, unit, format.text, format.zone, format.first_year)

    def refit(self, values: np.ndarray, *, counts: np.ndarray | None = None, bins: int = BINS) -> DateEncoder:
        """Return an encoder of the same unit and format whose states follow from other rows.

        Args:
            values: datetime64; NaT is left out.
            counts: Rows per value. Default: 1 each.
            bins: Quantile bins, 2 to 10,000. Default: 100.
        """
        known = ~np.isnat(values)
        weights = None if counts is None else np.asarray(counts)[known]
        return replace(
            self, numbers=self.numbers.refit(_since_1970(values[known], self.unit), counts=weights, bins=bins)
        )

    @property
    def date_format(self) -> DateFormat:
        """The format of dates in files, with their time zone and century."""
        return DateFormat(self.format, self.zone, self.first_year)

    @property
    def num_states(self) -> int:
        """The number of states."""
        return self.numbers.num_states

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the state of every date.

        Args:
            values: datetime64; NaT is missing.

        Returns:
            int64 states, 0 where missing; and whether the date is missing.
        """
        missing = np.isnat(values)
        states, _ = self.numbers.encode(_since_1970(np.where(missing, np.datetime64(0, "s"), values), self.unit))
        return np.where(missing, 0, states), missing

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None, *, uniforms: Any = None) -> np.ndarray:
        """Return one date per state, drawn from the dates of the state.

        Args:
            states: Whole numbers of ``0 .. num_states - 1``.
            rng: The source of randomness. Default: a new one without a seed.
            uniforms: Numbers of [0, 1) instead of ``rng``: positions inside the states.

        Returns:
            datetime64 in the encoder's unit.
        """
        whole = self.numbers.decode(states, rng, uniforms=uniforms)
        return whole.astype(np.int64).astype(f"datetime64[{self.unit}]")

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Return the natural logarithm of the probability of every date given its state.

        Args:
            values: datetime64; NaT is missing.

        Returns:
            The logarithms, 0 where the date is missing.
        """
        missing = np.isnat(values)
        whole = _since_1970(np.where(missing, np.datetime64(0, "s"), values), self.unit)
        return np.where(missing, 0.0, self.numbers.log_density(whole))

    def config(self) -> dict[str, Any]:
        """Return the fields as a mapping that can be written as JSON."""
        fields = {"unit": self.unit, "format": self.format, "zone": self.zone, "first_year": self.first_year}
        return as_config(self.type, {"numbers": self.numbers.config(), **fields})

    @classmethod
    def from_config(cls, config: object) -> DateEncoder:
        """Return the encoder that :meth:`config` described.

        Args:
            config: The mapping, as read from JSON.

        Raises:
            ValueError: It describes no date encoder.
        """
        fields = Fields(config, ("numbers", "unit", "format", "zone", "first_year"), "a date encoder")
        numbers = NumberEncoder.from_config(fields.config["numbers"])
        # The knots of the states ascend, so the first and the last state have the earliest and the latest date.
        ends = [knot + numbers.offset for state in (numbers.knots[0], numbers.knots[-1]) for knot in state]
        if not all(abs(end) < 2**63 for end in ends):
            raise ValueError("the dates of a date encoder must have 64 bits")
        return cls(
            numbers,
            fields.choice("unit", UNITS),
            fields.text("format", 100),
            fields.text("zone", 10),
            fields.integer("first_year", 0, 9900),
        )


def _since_1970(values: np.ndarray, unit: str) -> np.ndarray:
    """Return the dates as int64 numbers of units since 1970."""
    return values.astype(f"datetime64[{unit}]").astype(np.int64)


def _coarsest_unit(values: np.ndarray) -> str:
    """Return the coarsest unit of which every date is a whole number."""
    finest = np.datetime_data(values.dtype)[0]
    for unit in UNITS:
        if unit == finest or (values.astype(f"datetime64[{unit}]") == values).all():
            return unit
    return "ns"
