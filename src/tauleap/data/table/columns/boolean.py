"""Booleans as two states, in the words of the column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tauleap.data.table.columns.fields import Fields, as_config

PAIRS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("off", "on"))
"""Words for false and true in lower case."""


@dataclass(frozen=True)
class BooleanEncoder:
    """Encode false as state 0 and true as state 1.

    Args:
        words: The texts of false and true in files. Default: ``("False", "True")``.

    >>> BooleanEncoder(("no", "yes")).encode(["yes", None, False])
    (array([1, 0, 0]), array([False,  True, False]))
    """

    type: ClassVar[str] = "boolean"
    words: tuple[str, str] = ("False", "True")

    def __post_init__(self) -> None:
        if self.words[0] == self.words[1]:
            raise ValueError(f"the words of a boolean encoder must differ, got {self.words!r}")

    @property
    def num_states(self) -> int:
        """The number of states, 2."""
        return 2

    def encode(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the state of every value.

        Args:
            values: Booleans, 0 and 1, the encoder's words, or other common words in any case. All else is missing.

        Returns:
            int64 states, 0 where missing; and whether the value is missing.
        """
        states = np.fromiter((self._state(value) for value in values), np.int64, len(values))
        return np.maximum(states, 0), states < 0

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return the boolean of every state.

        Args:
            states: 0 or 1.
            rng: Not used.
        """
        return np.asarray(states) == 1

    def log_density(self, values: Any) -> np.ndarray:
        """Return zeros: a boolean has no density.

        Args:
            values: One value per row.
        """
        return np.zeros(len(values))

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config(self.type, {"words": self.words})

    @classmethod
    def from_config(cls, config: object) -> BooleanEncoder:
        """Return the encoder that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no boolean encoder.
        """
        fields = Fields(config, ("words",), "a boolean encoder")
        words = fields.items("words", lambda v: v if isinstance(v, str) else None, 2, "a text")
        if len(words) != 2:
            raise ValueError(f"words of a boolean encoder must be 2 texts, got {len(words)}")
        return cls((words[0], words[1]))

    def _state(self, value: object) -> int:
        if isinstance(value, str):
            text = value.strip()
            if text in self.words:
                return self.words.index(text)
            found = [pair.index(text.lower()) for pair in (*PAIRS, ("0", "1")) if text.lower() in pair]
            return found[0] if found else -1
        if isinstance(value, bool | np.bool_ | int | float | np.number) and value in (0, 1):
            return int(value)
        return -1


def boolean_words(values: list[str]) -> tuple[str, str] | None:
    """Return the words for false and true if two texts are such words, else None.

    Args:
        values: The distinct texts of a column.

    >>> boolean_words(["Yes", "No"])
    ('No', 'Yes')
    """
    if len(values) != 2:
        return None
    for pair in PAIRS:
        if sorted(value.strip().lower() for value in values) == sorted(pair):
            low, high = sorted(values, key=lambda value: pair.index(value.strip().lower()))
            return (low.strip(), high.strip())
    return None
