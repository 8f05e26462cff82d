"""Characters as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tauleap.data.sequences.tokens.tokeniser import Text, as_text, check_symbols, found_symbols
from tauleap.data.sequences.tokens.vocabulary import Vocabulary


@dataclass(frozen=True)
class Characters(Vocabulary):
    """Use every character as a symbol.

    Args:
        symbols: The characters.

    >>> characters = Characters.fit(["abba", "c"])
    >>> characters.encode("cab"), characters.decode([2, 0, 1])
    ([2, 0, 1], 'cab')
    """

    kind: ClassVar[str] = "characters"
    noun: ClassVar[str] = "characters"
    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        check_symbols(self.symbols, self.kind)
        if any(len(symbol) != 1 for symbol in self.symbols):
            raise ValueError("the symbols of a tokeniser of kind 'characters' must be single characters")

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> Characters:
        return cls(tuple(found_symbols(map(as_text, texts))))

    @staticmethod
    def split(text: str) -> Sequence[str]:
        return text
