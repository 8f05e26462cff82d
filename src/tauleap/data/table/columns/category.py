"""Categories as states; in a column of very many categories the rare ones share one state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tauleap.data import limits
from tauleap.data.table.columns.cells import objects
from tauleap.data.table.columns.fields import Fields, Scalar, as_config, rows, scalar

OTHER = "(other)"
"""The output for the state of rare categories."""


@dataclass(frozen=True)
class CategoryEncoder:
    """Encode categories as states; state ``i`` is ``categories[i]``, a last state may stand for rare categories.

    Make it with :meth:`fit`. The rare categories of a column may be personal data, such as the one person of a village.
    They are not stored with the model unless ``keep_rare`` was given.

    Args:
        categories: Texts, numbers or booleans that differ.
        other: The output for rare categories, or None if there is no state for them.
        rare: Rare categories that decoding may return instead of ``other``. Default: none.
        rare_rows: Rows per rare category.

    >>> encoder = CategoryEncoder.fit(["b", "a", "b"])
    >>> encoder.categories, encoder.encode(["b", None, "c"])
    (('a', 'b'), (array([1, 0, 0]), array([False,  True,  True])))
    >>> encoder.decode(np.array([1])).tolist()
    ['b']
    """

    type: ClassVar[str] = "category"
    categories: tuple[Scalar, ...]
    other: str | None = None
    rare: tuple[Scalar, ...] = ()
    rare_rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.categories or len(set(map(_key, self.categories))) != len(self.categories):
            raise ValueError("a category encoder must have one or more categories, and they must differ")
        if self.other is not None and _key(self.other) in self._places:
            raise ValueError(f"the marker {self.other!r} of rare categories must not be a category")
        if len(self.rare) != len(self.rare_rows) or (self.rare and (self.other is None or sum(self.rare_rows) == 0)):
            raise ValueError(
                "a category encoder with rare categories must have a marker (other), and the number of rows of "
                "each rare category"
            )

    @classmethod
    def fit(
        cls,
        values: Any,
        *,
        counts: np.ndarray | None = None,
        most: int = limits.CATEGORIES,
        keep_rare: bool = False,
        order: bool = True,
        other: str | None = None,
    ) -> CategoryEncoder:
        """Return the encoder of a column.

        Args:
            values: Texts, numbers or booleans; None and NaN are missing.
            counts: Rows per value. Default: 1 each.
            most: States at most. Above, the most frequent categories keep their states and the others share one.
                Default: 1,000.
            keep_rare: Store the rare categories, so that decoding returns them. Default: false.
            order: Sort the categories. Default: true. False keeps the order of ``values``.
            other: The output for rare categories, which then have a state even if no value is rare. Default:
                ``(other)`` if there are rare categories.

        Returns:
            The encoder.

        Raises:
            ValueError: There is no value, or ``most`` is below 2.
        """
        if most < 2:
            raise ValueError(f"most must be a whole number >= 2, got {most}")
        row_counts: dict[tuple[str, Scalar], int] = {}
        originals: dict[tuple[str, Scalar], Scalar] = {}
        weights = [1] * len(values) if counts is None else np.asarray(counts).tolist()
        for value, weight in zip(values, weights, strict=True):
            value = _plain(value)
            if value is not None:
                key = _key(value)
                originals.setdefault(key, value)
                row_counts[key] = row_counts.get(key, 0) + weight
        if not row_counts:
            raise ValueError("a category encoder needs one value or more")
        keys, rare = list(row_counts), []
        if len(keys) > most - (other is not None):
            frequent = sorted(keys, key=lambda key: -row_counts[key])
            rare, chosen = frequent[most - 1 :], set(frequent[: most - 1])
            keys = [key for key in keys if key in chosen]
        if order:
            keys.sort(key=lambda key: (key[0], key[1]))
        if rare and other is None:
            other, number = OTHER, 2
            while _key(other) in row_counts:
                other, number = f"(other {number})", number + 1
        rare = rare if keep_rare else []
        return cls(
            tuple(originals[key] for key in keys),
            other,
            tuple(originals[key] for key in rare),
            tuple(row_counts[key] for key in rare),
        )

    def refit(self, values: Any, *, counts: np.ndarray | None = None, order: bool = True) -> CategoryEncoder:
        """Return the encoder whose frequent categories are those of other rows; itself if it has no rare categories.

        Args:
            values: Texts, numbers or booleans of these rows; None and NaN are missing.
            counts: Rows per value. Default: 1 each.
            order: Sort the categories. Default: true. False keeps the order of ``values``.

        Returns:
            An encoder with at most as many states and a state for rare categories, which other rows may have.

        >>> encoder = CategoryEncoder.fit(["a", "b", "c", "c", "d"], most=3)
        >>> encoder.categories, encoder.refit(["b", "b", "d", "d", "a"]).categories
        (('a', 'c'), ('b', 'd'))
        """
        weights = np.ones(len(values), dtype=np.int64) if counts is None else np.asarray(counts)
        chosen = np.flatnonzero(weights > 0).tolist()
        if self.other is None or not chosen:
            return self
        rows = [values[place] for place in chosen]
        # The marker must differ from every category, also from those of rows that are not trained on: it stays.
        options: dict[str, Any] = {"most": self.num_states, "keep_rare": bool(self.rare), "other": self.other}
        return CategoryEncoder.fit(rows, counts=weights[chosen], order=order, **options)

    @property
    def num_states(self) -> int:
        """The number of states."""
        return len(self.categories) + (self.other is not None)

    def encode(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the state of every value.

        Args:
            values: Texts, numbers or booleans; None and NaN are missing. A category matches in every spelling of a
                whole number: "3", 3 and 3.0. An unknown one has the state of rare categories, or else is missing.

        Returns:
            int64 states, 0 where missing; and whether the value is missing.
        """
        states = np.fromiter((self._state(value) for value in values), np.int64, len(values))
        return np.maximum(states, 0), states < 0

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return the category of every state.

        Args:
            states: Whole numbers of ``0 .. num_states - 1``.
            rng: The source of randomness, needed only with ``keep_rare``. Default: a new one without a seed.

        Returns:
            An array of objects.
        """
        states = np.asarray(states)
        result = objects([*self.categories, self.other])[states]
        if self.rare:
            chosen = states == len(self.categories)
            weights = np.array(self.rare_rows, dtype=np.float64)
            generator = np.random.default_rng() if rng is None else rng
            picks = generator.choice(len(self.rare), size=int(chosen.sum()), p=weights / weights.sum())
            result[chosen] = objects(self.rare)[picks]
        return result

    def log_density(self, values: Any) -> np.ndarray:
        """Return zeros: a category has no density, and the bits do not count which of the rare categories a value was.

        Args:
            values: One value per row.
        """
        return np.zeros(len(values))

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        fields = {"categories": self.categories, "other": self.other, "rare": self.rare, "rare_rows": self.rare_rows}
        return as_config(self.type, fields)

    @classmethod
    def from_config(cls, config: object) -> CategoryEncoder:
        """Return the encoder that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no category encoder.
        """
        fields = Fields(config, ("categories", "other", "rare", "rare_rows"), "a category encoder")
        expected = "a text, a finite number or a boolean"
        return cls(
            fields.items("categories", scalar, limits.STATES, expected),
            None if fields.config["other"] is None else fields.text("other"),
            fields.items("rare", scalar, 2**24, expected),
            fields.items("rare_rows", rows, 2**24, "a whole number >= 0"),
        )

    @cached_property
    def _places(self) -> dict[tuple[str, Scalar], int]:
        return {_key(value): place for place, value in enumerate(self.categories)}

    @cached_property
    def _spellings(self) -> dict[str, int]:
        return {spelling(value): place for place, value in reversed(list(enumerate(self.categories)))}

    def _state(self, value: object) -> int:
        plain = _plain(value)
        if plain is None:
            return -1
        found = self._places.get(_key(plain), -1)
        if found < 0:
            found = self._spellings.get(spelling(plain), -1)
        return len(self.categories) if found < 0 and self.other is not None else found


def spelling(value: Scalar) -> str:
    """Return the text of a value by which categories of different types match; whole floats as whole numbers.

    Args:
        value: A text, number or boolean.

    >>> spelling(3.0), spelling("3"), spelling(True)
    ('3', '3', 'True')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _plain(value: object) -> Scalar | None:
    """Return a value as JSON can hold it, or None if it is missing."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if abs(value) != float("inf") else str(value)
    return None if type(value).__name__ in {"NAType", "NaTType"} else str(value)


def _key(value: Scalar) -> tuple[str, Scalar]:
    """Return a key that distinguishes categories: 1, 1.0, True and "1" are four categories."""
    return (type(value).__name__, value)
