"""Tokenisers, which divide a text into symbols and join symbols to a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from tauleap.data import limits
from tauleap.data.sequences.fields import from_fields, to_fields

Text: TypeAlias = str | tuple[str | int, ...]
"""One row as users write it: a text, or a list of tokens."""
UNKNOWN = -1
"""The number of a symbol that the row leaves open, such as X in a protein."""
_WILDCARDS = ("?", "_", "*", "#", "\N{REPLACEMENT CHARACTER}")


class UnknownSymbolError(ValueError):
    """Report a symbol that the tokeniser does not have.

    Args:
        symbol: The symbol.
        at: Its position in the text, from 0.
        accepted: The symbols that it has, as a text for a message.
    """

    def __init__(self, symbol: object, at: int, accepted: str) -> None:
        self.symbol, self.at, self.accepted = symbol, at, accepted
        super().__init__(f"{symbol!r} is not in the training data; accepted are {accepted}")


class Tokeniser(ABC):
    """Divide rows into numbered symbols and join them again; a frozen dataclass whose fields can be saved as JSON."""

    kind: ClassVar[str]
    """The name in a configuration and on the command line."""
    noun: ClassVar[str]
    """The name of a symbol, in the plural."""

    @property
    @abstractmethod
    def num_symbols(self) -> int:
        """The number of symbols."""

    @abstractmethod
    def encode(self, text: Text) -> list[int]:
        """Return the numbers of the symbols of a text; ``UNKNOWN`` for a symbol that the text leaves open.

        Args:
            text: The text.

        Raises:
            UnknownSymbolError: The text has another symbol.
        """

    @abstractmethod
    def decode(self, symbols: Sequence[int]) -> Text:
        """Return the text of symbols.

        Args:
            symbols: The numbers of the symbols.
        """

    @classmethod
    @abstractmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> Tokeniser:
        """Return the tokeniser with the symbols of some texts.

        Args:
            texts: The training rows.
            vocabulary: The largest number of symbols, where it can be chosen. Default: all.

        Raises:
            UnknownSymbolError: A text has a symbol that this kind of tokeniser cannot have.
            ValueError: The texts have fewer than two or too many symbols.
        """

    @cached_property
    def wildcard(self) -> str:
        """The text that stands for one missing symbol in a row to complete."""
        return next(mark for mark in _WILDCARDS if not self._uses(mark))

    def _uses(self, mark: str) -> bool:
        """Return whether a character can occur in a text."""
        return False

    def encode_open(self, text: Text, wildcard: str) -> list[int]:
        """Return the numbers of the symbols of a text, ``UNKNOWN`` for each wildcard.

        Args:
            text: The text.
            wildcard: The text that stands for one missing symbol.

        Raises:
            UnknownSymbolError: The text has another symbol.
        """
        found: list[int] = []
        at = 0
        for number, piece in enumerate(as_text(text).split(wildcard)):
            found += [UNKNOWN] * (number > 0)
            try:
                found += self.encode(piece)
            except UnknownSymbolError as error:
                raise UnknownSymbolError(error.symbol, at + error.at, error.accepted) from error
            at += len(piece) + len(wildcard)
        return found

    def describe(self) -> str:
        """Return the number of symbols in words."""
        return f"{self.num_symbols} different {self.noun}"

    def config(self) -> dict[str, Any]:
        """Return the configuration, which can be saved as JSON."""
        return to_fields(self.kind, self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Tokeniser:
        """Return the tokeniser of a configuration.

        Args:
            config: What :meth:`config` returned.

        Raises:
            ValueError: The configuration is not valid.
        """
        return from_fields(f"a tokeniser of kind {cls.kind!r}", cls, config)


def check_symbols(symbols: object, kind: str, *, types: tuple[type, ...] = (str,)) -> None:
    """Raise ValueError unless an argument is a tuple of two or more different symbols.

    Args:
        symbols: The argument.
        kind: The kind of the tokeniser, for the message.
        types: The types of a symbol. Default: texts.
    """
    if (
        not isinstance(symbols, tuple)
        or not 2 <= len(symbols) <= limits.STATES
        or not all(type(symbol) in types and symbol != "" for symbol in symbols)
        or len(set(symbols)) != len(symbols)
    ):
        raise ValueError(
            f"the symbols of a tokeniser of kind {kind!r} must be 2 to {limits.STATES:,} different ones, got "
            f"{symbols!r:.60}"
        )


def found_symbols(rows: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the different symbols of rows, sorted.

    Args:
        rows: The symbols of each row.

    Raises:
        ValueError: There are fewer than two or too many.

    >>> found_symbols(["ab", "ac"])
    ['a', 'b', 'c']
    """
    found = sorted(set().union(*rows))
    if len(found) < 2:
        shown = f"only {found[0]!r}" if found else "nothing"
        raise ValueError(f"the rows contain {shown}: give rows with two or more different symbols")
    if len(found) >= limits.STATES:
        raise ValueError(
            f"the rows must have < {limits.STATES:,} different symbols, got {len(found):,}: write --tokens bpe or bytes"
        )
    return found


def shown(symbols: Sequence[object], most: int = 60) -> str:
    """Return symbols as a text for a message.

    Args:
        symbols: The symbols.
        most: How many are shown. Default: 60.

    >>> shown("ab"), shown(["Br", "C"])
    ("'ab'", "'Br', 'C'")
    """
    if all(isinstance(symbol, str) and len(symbol) == 1 for symbol in symbols):
        return repr("".join(map(str, symbols)))
    more = f" and {len(symbols) - most} more" if len(symbols) > most else ""
    return ", ".join(map(repr, symbols[:most])) + more


def as_text(text: Text) -> str:
    """Return a row that is a text; raise ValueError for a list of tokens.

    Args:
        text: The row.
    """
    if not isinstance(text, str):
        raise ValueError("this tokeniser takes texts, got a list of tokens: give a text, or train without --tokens")
    return text
