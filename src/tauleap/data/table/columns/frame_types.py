"""The pandas type of a column, so that output has the type of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tauleap.data import limits
from tauleap.data.table.columns.date_text import DateFormat
from tauleap.data.table.columns.durations import UNITS
from tauleap.data.table.columns.fields import Fields, Scalar, as_config, scalar

OBJECTS = (
    *("", "date", "datetime", "utc datetime", "time", "decimal", "int", "float", "bool", "str", "bytes", "mixed"),
    *UNITS,
)
"""Python types of the cells of an object column, and units of a column of durations."""
_PERIODS = {
    "Y-DEC": "%Y",
    "M": "%Y-%m",
    "D": "%Y-%m-%d",
    "h": "%Y-%m-%d %H:%M",
    "min": "%Y-%m-%d %H:%M",
    "s": "%Y-%m-%d %H:%M:%S",
}
"""How pandas writes periods of a frequency. Other periods, such as quarters, are categories."""
_MOST_LEVELS = 100
"""Parts of a label that is a tuple."""
Label = bool | tuple[Scalar | None, ...]


@dataclass(frozen=True)
class FrameType:
    """Describe the pandas type of a column.

    Args:
        name: The name of the dtype, such as ``Int64`` or ``datetime64[ns, UTC]``.
        objects: The Python type of the cells of an object column, or the unit of durations, else empty.
        categories: The categories of a categorical column, else empty; intervals, periods and dates as texts.
        category_type: The name of the dtype of the categories, else empty.
        ordered: Whether a categorical column is ordered.
        label: The column's label in a frame if it is no text: true for a whole number, a tuple for a tuple, and a tuple
            of one for another number, a boolean or None. Default: false, it is the name.

    >>> FrameType.from_config(FrameType("int64").config()).name
    'int64'
    """

    name: str
    objects: str = ""
    categories: tuple[Scalar, ...] = ()
    category_type: str = ""
    ordered: bool = False
    label: Label = False

    @property
    def unit(self) -> str:
        """The unit of a column of durations, else empty."""
        return self.objects if self.objects in UNITS else ""

    @property
    def is_time(self) -> bool:
        """Whether the cells are times of the day, without a date."""
        return self.objects == "time" or self.name.startswith(("time32", "time64"))

    @property
    def period_format(self) -> DateFormat | None:
        """The date format in which files hold periods of this type; None for a type without such periods."""
        written = _PERIODS.get(self.name.removeprefix("period[").removesuffix("]"))
        return DateFormat(written) if written is not None and self.name.startswith("period[") else None

    def label_of(self, name: str) -> Any:
        """Return the label of the column in a frame.

        Args:
            name: The name of the column.

        >>> FrameType("int64", label=True).label_of("7"), FrameType("int64", label=("a", 1)).label_of("('a', 1)")
        (7, ('a', 1))
        """
        if self.label is True:
            return int(name)
        if not self.label:
            return name
        first, *others = self.label
        return (first, *others) if others else first

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config(
            "frame type",
            {
                "name": self.name,
                "objects": self.objects,
                "categories": self.categories,
                "category_type": self.category_type,
                "ordered": self.ordered,
                "label": self.label,
            },
        )

    @classmethod
    def from_config(cls, config: object) -> FrameType:
        """Return the type that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no type.
        """
        names = ("name", "objects", "categories", "category_type", "ordered", "label")
        fields = Fields(config, names, "a frame type")
        return cls(
            fields.text("name", 100),
            fields.choice("objects", OBJECTS),
            fields.items("categories", scalar, limits.STATES, "a text, number or boolean"),
            fields.text("category_type", 100),
            fields.flag("ordered"),
            fields.get("label", _label, "true, false or a list of texts, numbers, booleans and null"),
        )


def column_name(label: object) -> str:
    """Return the name of a column of a frame.

    Args:
        label: The label of the column.

    >>> column_name(7), column_name(("a", "b"))
    ('7', "('a', 'b')")
    """
    return str(_plain(label))


def frame_label(label: object) -> Label:
    """Return a label of a column as :class:`FrameType` holds it; those that JSON cannot hold become texts.

    Args:
        label: The label.

    >>> frame_label("a"), frame_label(7), frame_label(2.5), frame_label(("a", 1))
    (False, True, (2.5,), ('a', 1))
    """
    plain = _plain(label)
    if isinstance(plain, str):
        return False
    if isinstance(plain, int) and not isinstance(plain, bool):
        return True
    parts = plain if isinstance(plain, tuple) else (plain,)
    fits = all(part is None or scalar(part) is not None for part in parts)
    return parts if fits and (len(parts) > 1 or not isinstance(plain, tuple)) else False


def _plain(label: object) -> Any:
    """Return a label without types of numpy."""
    if isinstance(label, tuple):
        return tuple(map(_plain, label))
    return label.item() if isinstance(label, np.generic) else label


def _label(value: object) -> Label | None:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _MOST_LEVELS:
        return None
    return tuple(value) if all(part is None or scalar(part) is not None for part in value) else None
