"""Amino acids of proteins, and bases of DNA and RNA, by the letters of IUPAC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tauleap.data.sequences.tokens.tokeniser import UNKNOWN, Text, Tokeniser, UnknownSymbolError, as_text

AMINO, BASES = "ACDEFGHIKLMNPQRSTVWY", "ACGT"
_AMINO_OTHER, _BASES_OTHER = "BJOUZ*", "URYSWKMBDHV"
AMINO_OPEN, BASES_OPEN = "X", "N"
ALL_AMINO, ALL_BASES = AMINO + _AMINO_OTHER + AMINO_OPEN, BASES + _BASES_OTHER + BASES_OPEN


class _Residues(Tokeniser):
    """Use the letters of a fixed alphabet as symbols; one letter stands for any of them, and case does not matter."""

    symbols: str
    letters: ClassVar[str]
    """The letters that always are symbols."""
    others: ClassVar[str]
    """The letters that are symbols if the training rows have them."""
    open_letter: ClassVar[str]
    """The letter that stands for any other."""

    @property
    def num_symbols(self) -> int:
        return len(self.symbols)

    @cached_property
    def wildcard(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.open_letter

    @cached_property
    def _numbers(self) -> dict[str, int]:
        numbers = {letter: number for number, letter in enumerate(self.symbols)}
        numbers[self.open_letter] = UNKNOWN
        return numbers | {letter.lower(): number for letter, number in numbers.items()}

    def encode(self, text: Text) -> list[int]:
        letters = as_text(text)
        try:
            return list(map(self._numbers.__getitem__, letters))
        except KeyError:
            at = next(at for at, letter in enumerate(letters) if letter not in self._numbers)
            accepted = f"{self.symbols!r}, and {self.open_letter} for an unknown one"
            raise UnknownSymbolError(letters[at], at, accepted) from None

    def decode(self, symbols: Sequence[int]) -> Text:
        return "".join([self.symbols[number] for number in symbols])

    def _check(self) -> None:
        known = self.letters + self.others
        if not isinstance(self.symbols, str) or len(set(self.symbols)) != len(self.symbols):
            raise ValueError(f"the symbols of {self.noun} must be different letters, got {self.symbols!r:.60}")
        if len(self.symbols) < 2 or not set(self.symbols) <= set(known):
            raise ValueError(f"the symbols of {self.noun} must be letters of {known!r}, got {self.symbols!r:.60}")

    @classmethod
    def _found(cls, texts: Sequence[Text]) -> str:
        found: set[str] = set()
        for text in texts:
            letters = set(as_text(text).upper())
            if strange := letters - set(cls.letters + cls.others + cls.open_letter):
                letters = strange
                at = next(at for at, letter in enumerate(as_text(text).upper()) if letter in strange)
                accepted = f"{cls.letters + cls.others!r}, and {cls.open_letter} for an unknown one"
                raise UnknownSymbolError(as_text(text)[at], at, accepted)
            found |= letters
        return "".join(letter for letter in cls.letters + cls.others if letter in cls.letters or letter in found)


@dataclass(frozen=True)
class AminoAcids(_Residues):
    """Use the 20 amino acids as symbols, and the rarer letters of IUPAC if they occur; X is unknown.

    Args:
        symbols: The letters.

    >>> AminoAcids.fit(["MKV", "MUX"]).encode("mkX")
    [10, 8, -1]
    """

    kind: ClassVar[str] = "amino"
    noun: ClassVar[str] = "amino acids"
    letters: ClassVar[str] = AMINO
    others: ClassVar[str] = _AMINO_OTHER
    open_letter: ClassVar[str] = AMINO_OPEN
    symbols: str

    def __post_init__(self) -> None:
        self._check()

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> AminoAcids:
        return cls(cls._found(texts))


@dataclass(frozen=True)
class Bases(_Residues):
    """Use the four bases as symbols, and U and the ambiguous letters of IUPAC if they occur; N is unknown.

    Args:
        symbols: The letters.

    >>> Bases.fit(["ACGT", "nacr"]).symbols
    'ACGTR'
    """

    kind: ClassVar[str] = "bases"
    noun: ClassVar[str] = "bases"
    letters: ClassVar[str] = BASES
    others: ClassVar[str] = _BASES_OTHER
    open_letter: ClassVar[str] = BASES_OPEN
    symbols: str

    def __post_init__(self) -> None:
        self._check()

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> Bases:
        return cls(cls._found(texts))
