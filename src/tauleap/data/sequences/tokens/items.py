"""Tokens that the user has made: lists of texts or of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tauleap.data.sequences.tokens.tokeniser import (
    UNKNOWN,
    Text,
    Tokeniser,
    UnknownSymbolError,
    check_symbols,
    found_symbols,
    shown,
)


@dataclass(frozen=True)
class Items(Tokeniser):
    """Use the items of lists as symbols, either texts or whole numbers.

    Args:
        symbols: The different items.

    >>> items = Items.fit([(7, 30), (30,)])
    >>> items.encode((30, 30, 7)), items.decode([0])
    ([1, 1, 0], (7,))
    """

    kind: ClassVar[str] = "items"
    noun: ClassVar[str] = "tokens"
    symbols: tuple[str | int, ...]

    def __post_init__(self) -> None:
        check_symbols(self.symbols, self.kind, types=(str, int))
        if len({type(symbol) for symbol in self.symbols}) != 1:
            raise ValueError("the symbols of a tokeniser of kind 'items' must be texts, or whole numbers")

    @property
    def num_symbols(self) -> int:
        return len(self.symbols)

    @cached_property
    def _numbers(self) -> dict[str | int, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def encode(self, text: Text) -> list[int]:
        if isinstance(text, str):
            raise ValueError("the model takes lists of tokens, got a text: give a list of tokens")
        found = [self._numbers.get(item) for item in text]
        if None in found:
            at = found.index(None)
            raise UnknownSymbolError(text[at], at, shown(self.symbols))
        return [number for number in found if number is not None]

    def encode_open(self, text: Text, wildcard: str) -> list[int]:
        found: list[int] = []
        for at, item in enumerate(text):
            try:
                found += [UNKNOWN] if item == wildcard else self.encode((item,))
            except UnknownSymbolError as error:
                raise UnknownSymbolError(item, at, error.accepted) from error
        return found

    def decode(self, symbols: Sequence[int]) -> Text:
        return tuple(self.symbols[number] for number in symbols)

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> Items:
        kind: type | None = None
        for number, text in enumerate(texts):
            if isinstance(text, str):
                raise ValueError(f"row {number} is a text, and others are lists of tokens: give rows of one type")
            for at, item in enumerate(text):
                kind = kind or type(item)
                if type(item) is not kind or kind not in (str, int) or item == "":
                    raise ValueError(
                        f"row {number}, position {at}: {item!r:.40} cannot be a token here: give texts that are not "
                        "empty, or whole numbers, in all rows"
                    )
        return cls(tuple(found_symbols(texts)))

    def _uses(self, mark: str) -> bool:
        return mark in self._numbers
