"""Atoms, bonds and rings of molecules in SMILES as symbols."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tauleap.data.sequences.tokens.tokeniser import Text, as_text, check_symbols, found_symbols
from tauleap.data.sequences.tokens.vocabulary import Vocabulary

_TOKEN = re.compile(r"\[[^\[\]]*\]|Br|Cl|@@|%[0-9]{2}|.", re.DOTALL)


@dataclass(frozen=True)
class Smiles(Vocabulary):
    """Use the parts of SMILES as symbols: atoms such as Cl or [nH], bonds, brackets and ring numbers such as %12.

    Args:
        symbols: The parts.

    >>> Smiles.split("C[C@@H](Cl)c1cc%12")
    ['C', '[C@@H]', '(', 'Cl', ')', 'c', '1', 'c', 'c', '%12']
    """

    kind: ClassVar[str] = "smiles"
    noun: ClassVar[str] = "SMILES tokens"
    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        check_symbols(self.symbols, self.kind)

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> Smiles:
        return cls(tuple(found_symbols(cls.split(as_text(text)) for text in texts)))

    @staticmethod
    def split(text: str) -> Sequence[str]:
        return _TOKEN.findall(text)
