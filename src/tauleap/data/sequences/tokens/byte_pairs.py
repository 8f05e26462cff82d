"""Byte-pair encoding by the library tokenizers: frequent parts of words as symbols."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from tauleap import _check
from tauleap.data import limits
from tauleap.data.sequences.tokens.tokeniser import Text, Tokeniser, as_text

VOCABULARY = 4096
"""Symbols unless the user gives another number."""
_BYTES = 256


@dataclass(frozen=True)
class BytePairs(Tokeniser):
    """Use bytes, and pairs of symbols that are frequent in the training rows, as symbols, so that no text is unknown.

    Args:
        model: The tokeniser as the library tokenizers writes it, a JSON text.
    """

    kind: ClassVar[str] = "bpe"
    noun: ClassVar[str] = "parts of words"
    model: str

    def __post_init__(self) -> None:
        found = self._vocabulary()
        if not isinstance(found, dict) or not _BYTES <= len(found) <= limits.STATES:
            raise ValueError("a tokeniser of kind 'bpe' must have a vocabulary with all bytes")
        if sorted(value for value in found.values() if type(value) is int) != list(range(len(found))):
            raise ValueError("the vocabulary of a tokeniser of kind 'bpe' must have the numbers 0, 1, 2, ...")

    def _vocabulary(self) -> Any:
        try:
            return json.loads(self.model)["model"]["vocab"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError("a tokeniser of kind 'bpe' must be a JSON text of the library tokenizers") from error

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            return _library().Tokenizer.from_str(self.model)
        except ValueError:
            raise
        except Exception as error:  # the library raises plain exceptions
            raise ValueError(f"the tokeniser of the model cannot be read: {error}") from error

    @cached_property
    def _size(self) -> int:
        return len(self._vocabulary())

    @property
    def num_symbols(self) -> int:
        return self._size

    def encode(self, text: Text) -> list[int]:
        return self._tokenizer.encode(as_text(text), add_special_tokens=False).ids

    def decode(self, symbols: Sequence[int]) -> Text:
        text = self._tokenizer.decode(list(symbols), skip_special_tokens=False)
        return text.replace("\n", "\N{REPLACEMENT CHARACTER}")  # it would end the row in its file

    @classmethod
    def fit(cls, texts: Sequence[Text], vocabulary: int | None = None) -> BytePairs:
        number = _check.integer("vocabulary", VOCABULARY if vocabulary is None else vocabulary, least=_BYTES)
        rows = [as_text(text) for text in texts]
        library = _library()
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=number,
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=[],
            show_progress=False,
        )
        tokenizer.train_from_iterator(rows, trainer)
        return cls(tokenizer.to_str())

    def _uses(self, mark: str) -> bool:
        return mark.isascii()


def _library() -> Any:
    try:
        import tokenizers  # pyright: ignore[reportMissingImports] (an extra)
    except ModuleNotFoundError as error:
        raise ValueError("byte-pair encoding needs another package: write pip install 'tauleap[text]'") from error
    return tokenizers
