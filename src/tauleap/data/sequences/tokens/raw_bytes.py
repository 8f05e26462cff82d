"""Bytes of UTF-8 as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tauleap.data.sequences.tokens.tokeniser import Text, Tokeniser, as_text


@dataclass(frozen=True)
class RawBytes(Tokeniser):
    """Use the bytes of a text in UTF-8 as symbols, so that no text is unknown.

    Bytes that are not UTF-8, such as a part of a character, are decoded as U+FFFD.

    >>> RawBytes().encode("é"), RawBytes().decode([195, 169])
    ([195, 169], 'é')
    """

    kind: ClassVar[str] = "bytes"
    noun: ClassVar[str] = "bytes"

    @property
    def num_symbols(self) -> int:
        return 256

    def encode(self, text: Text) -> list[int]:
        return list(as_text(text).encode("utf-8", "surrogatepass"))

    def decode(self, symbols: Sequence[int]) -> Text:
        # A line break would end the row in its file.
        return bytes(symbols).decode("utf-8", "replace").replace("\n", "\N{REPLACEMENT CHARACTER}")

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> RawBytes:
        for text in texts:
            as_text(text)
        return cls()

    def _uses(self, mark: str) -> bool:
        return mark.isascii()
