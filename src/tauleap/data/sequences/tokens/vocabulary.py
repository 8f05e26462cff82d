"""The base of tokenisers that list their symbols."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from tauleap.data.sequences.tokens.tokeniser import Text, Tokeniser, UnknownSymbolError, as_text, shown


class Vocabulary(Tokeniser):
    """List all symbols as texts; a subclass says how a text is divided."""

    symbols: tuple[str, ...]
    joiner: ClassVar[str] = ""
    """The text between two symbols."""

    @property
    def num_symbols(self) -> int:
        return len(self.symbols)

    @staticmethod
    @abstractmethod
    def split(text: str) -> Sequence[str]:
        """Return the symbols of a text, in order.

        Args:
            text: The text.
        """

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each symbol."""
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def encode(self, text: Text) -> list[int]:
        parts = self.split(as_text(text))
        try:
            return list(map(self.numbers.__getitem__, parts))
        except KeyError:
            at = next(at for at, part in enumerate(parts) if part not in self.numbers)
            raise UnknownSymbolError(parts[at], self._place(text, parts, at), shown(self.symbols)) from None

    def _place(self, text: Text, parts: Sequence[str], at: int) -> int:
        place = sum(map(len, parts[:at])) + at * len(self.joiner)
        return as_text(text).index(parts[at], min(place, len(text) - len(parts[at])))

    def decode(self, symbols: Sequence[int]) -> Text:
        return self.joiner.join([self.symbols[number] for number in symbols])

    def _uses(self, mark: str) -> bool:
        return any(mark in symbol for symbol in self.symbols)
