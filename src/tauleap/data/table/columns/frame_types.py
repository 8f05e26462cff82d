"""The pandas type of a column, so that output has the type of the input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tauleap.data import limits
from tauleap.data.table.columns.fields import Fields, Scalar, as_config, scalar

OBJECTS = ("", "date", "datetime", "time", "decimal", "int", "float", "bool", "str", "bytes", "mixed")
"""Python types of the cells of an object column."""


@dataclass(frozen=True)
class FrameType:
    """Describe the pandas type of a column.

    Args:
        name: The name of the dtype, such as ``Int64`` or ``datetime64[ns, UTC]``.
        objects: The Python type of the cells of an object column, else empty.
        categories: The categories of a categorical column, else empty; intervals, periods and dates as texts.
        category_type: The name of the dtype of the categories, else empty.
        ordered: Whether a categorical column is ordered.
        label: Whether the column's name is a whole number.

    >>> FrameType.from_config(FrameType("int64").config()).name
    'int64'
    """

    name: str
    objects: str = ""
    categories: tuple[Scalar, ...] = ()
    category_type: str = ""
    ordered: bool = False
    label: bool = False

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
            fields.flag("label"),
        )
