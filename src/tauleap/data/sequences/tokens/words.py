"""Words between spaces as symbols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tauleap import _check
from tauleap.data.sequences.tokens.tokeniser import Text, as_text, check_symbols, found_symbols
from tauleap.data.sequences.tokens.vocabulary import Vocabulary

RARE = "<rare>"
"""The symbol of words that are not in the vocabulary."""


@dataclass(frozen=True)
class Words(Vocabulary):
    """Use the words between spaces as symbols. A row is written with one space between its words.

    Args:
        symbols: The words; with ``<rare>`` among them, every other word becomes this one.

    >>> Words.fit(["a b a", "a c"], vocabulary=2).symbols
    ('<rare>', 'a')
    """

    kind: ClassVar[str] = "words"
    noun: ClassVar[str] = "words"
    joiner: ClassVar[str] = " "
    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        check_symbols(self.symbols, self.kind)

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> Words:
        counts = Counter(word for text in texts for word in cls.split(as_text(text)))
        if vocabulary is None or len(counts) <= _check.integer("vocabulary", vocabulary, least=2):
            return cls(tuple(found_symbols([counts])))
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[: vocabulary - 1]
        return cls((RARE, *sorted(set(frequent) - {RARE})))

    @staticmethod
    def split(text: str) -> Sequence[str]:
        return text.split()

    def encode(self, text: Text) -> list[int]:
        rare = self.numbers.get(RARE)
        if rare is None:
            return super().encode(text)
        return [self.numbers.get(word, rare) for word in self.split(as_text(text))]
