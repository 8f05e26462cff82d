"""Columns that no model needs: constants, identifiers and free text. They have no state to learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tauleap.data.table.columns.cells import objects
from tauleap.data.table.columns.fields import Fields, Scalar, as_config, scalar, short


class _Unmodelled(ABC):
    """Encode every value as state 0."""

    @abstractmethod
    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return one value per state."""

    @property
    def num_states(self) -> int:
        """The number of states, 1."""
        return 1

    def encode(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return state 0 for every value.

        Args:
            values: One value per row.

        Returns:
            int64 states, and no missing values, since the column is ignored.
        """
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=bool)

    def log_density(self, values: Any) -> np.ndarray:
        """Return zeros: the column is no part of the model.

        Args:
            values: One value per row.
        """
        return np.zeros(len(values))


@dataclass(frozen=True)
class ConstantColumn(_Unmodelled):
    """Return the same value in every row.

    Args:
        value: The value; None for a column without values.

    >>> ConstantColumn("EUR").decode(np.zeros(2)).tolist()
    ['EUR', 'EUR']
    """

    type: ClassVar[str] = "constant"
    value: Scalar | None

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return the value once per state.

        Args:
            states: Zeros.
            rng: Not used.
        """
        return objects([self.value] * len(states))

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config(self.type, {"value": self.value})

    @classmethod
    def from_config(cls, config: object) -> ConstantColumn:
        """Return the column that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no constant column.
        """
        value = Fields(config, ("value",), "a constant column").config["value"]
        if value is not None and scalar(value) is None:
            raise ValueError(f"value of a constant column must be a text, number or boolean, got {short(value)}")
        return cls(value)


@dataclass(frozen=True)
class IdentifierColumn(_Unmodelled):
    """Return a running number: identifiers of the data are not learned and not repeated.

    Args:
        start: The first number. Default: 1.

    >>> IdentifierColumn().decode(np.zeros(3)).tolist()
    [1, 2, 3]
    """

    type: ClassVar[str] = "id"
    start: int = 1

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None, *, first: int = 0) -> np.ndarray:
        """Return one number per state.

        Args:
            states: Zeros.
            rng: Not used.
            first: Rows that came before, in a table that is written in parts. Default: 0.
        """
        return np.arange(len(states), dtype=np.int64) + self.start + first

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config(self.type, {"start": self.start})

    @classmethod
    def from_config(cls, config: object) -> IdentifierColumn:
        """Return the column that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no identifier column.
        """
        return cls(Fields(config, ("start",), "an identifier column").integer("start", -(2**62), 2**62))


@dataclass(frozen=True)
class FreeTextColumn(_Unmodelled):
    """Return missing values: free text is not learned.

    >>> FreeTextColumn().decode(np.zeros(2)).tolist()
    [None, None]
    """

    type: ClassVar[str] = "text"

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return None once per state.

        Args:
            states: Zeros.
            rng: Not used.
        """
        return objects([None] * len(states))

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config(self.type, {})

    @classmethod
    def from_config(cls, config: object) -> FreeTextColumn:
        """Return the column that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no column of free text.
        """
        Fields(config, (), "a column of free text")
        return cls()
