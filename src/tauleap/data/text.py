"""Text: characters, or bytes, in rows of equal length."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from tauleap import _check, _files
from tauleap.data import limits, windows
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData

LENGTH = 64
_MOST_CHARACTERS = 256


@dataclass(frozen=True)
class TextFormat(Format):
    """Rows of characters, or of bytes.

    Args:
        length: The number of characters in a row.
        alphabet: The characters that states stand for, in their order; None for bytes 0..255.
    """

    kind: ClassVar[str] = "text"
    length: int
    alphabet: str | None

    def __post_init__(self) -> None:
        if isinstance(self.length, bool) or not isinstance(self.length, int) or self.length < 1:
            raise ValueError(f"the length of a text must be a whole number >= 1, got {self.length!r}")
        if self.alphabet is not None and (
            not isinstance(self.alphabet, str)
            or not 2 <= len(self.alphabet) <= limits.STATES
            or list(self.alphabet) != sorted(set(self.alphabet))
        ):
            raise ValueError("an alphabet must be a text of two or more characters that differ, in their order")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def num_states(self) -> int:
        return 256 if self.alphabet is None else len(self.alphabet)

    @staticmethod
    def open(
        path: Path, *, length: int | None = None, coding: Literal["auto", "characters", "bytes"] = "auto"
    ) -> LoadedData:
        """Return the rows of a text, one after the other; the rest that does not fill a row is left out.

        States are the characters that occur; bytes where there are more than 256 of them or the text is not UTF-8.

        Args:
            path: A text file.
            length: Characters or bytes in a row. Default: 64.
            coding: Characters, bytes, or the one that suits the file.
        """
        if coding not in ("auto", "characters", "bytes"):
            raise ValueError(f"coding must be auto, characters or bytes, got {coding!r}")
        length = LENGTH if length is None else _check.integer("length", length, least=1)
        content = limits.contents(path)
        alphabet, why = None, "bytes, as asked for"
        codes = np.frombuffer(content, dtype=np.uint8)
        if coding != "bytes":
            try:
                text = _decoded(content, path)
            except ValueError:
                if coding == "characters":
                    raise
                why = "bytes, because the file is not UTF-8"
            else:
                points, states = np.unique(_points(text), return_inverse=True)
                if len(points) > (_MOST_CHARACTERS if coding == "auto" else limits.STATES):
                    why = f"bytes, because there are {len(points)} different characters"
                    if coding == "characters":
                        raise ValueError(f"{path} has {len(points)} different characters: write coding='bytes'")
                else:
                    alphabet, codes = "".join(map(chr, points.tolist())), states
                    why = f"{len(points)} different characters"
        if alphabet is not None and len(alphabet) < 2:
            raise ValueError(f"{path} holds nothing but {alphabet!r}: there is nothing to learn")
        if len(codes) < 2 * length:
            raise ValueError(f"{path} has {len(codes)} characters, too few for two rows of {length}: shorten length")
        form = TextFormat(length, alphabet)
        kind = torch.uint8 if form.num_states <= 256 else torch.int32
        x = windows.whole(torch.from_numpy(codes.astype(np.int32)).to(kind), length)
        rest = len(codes) % length
        report = [f"{path.name}: {why}; {len(x)} rows of {length}" + (f", the last {rest} left out" if rest else "")]
        return LoadedData(Dataset(x, form.num_states), form, report)

    def read(self, path: Path) -> Dataset:
        """Return a text from its beginning; the end of the last row is missing, so that the text can be continued.

        Args:
            path: The file.
        """
        content = limits.contents(path)
        if self.alphabet is None:
            codes = np.frombuffer(content, dtype=np.uint8)
        else:
            text = _decoded(content, path)
            points, known = _points(text), _points(self.alphabet)
            codes = np.searchsorted(known, points).clip(max=len(known) - 1)
            wrong = np.flatnonzero(known[codes] != points)
            if len(wrong):
                at = int(wrong[0])
                line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
                raise ValueError(
                    f"{path}, line {line}, column {column}: {text[at]!r} is no character that the model knows; it "
                    f"learnt {self.show_alphabet()}"
                )
        x, missing = windows.padded(torch.from_numpy(codes.astype(np.int32)), self.length)
        return Dataset(x, self.num_states, missing=missing if bool(missing.any()) else None)

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", "writes a text on"

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.txt"
        with _files.atomic_write(path) as file:
            for number, text in enumerate(self.texts(x), start=first):
                file.write(f"=== {number}\n{text}\n".encode("utf-8", "surrogatepass"))
        return [path]

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        shown = (text if all(c.isprintable() or c == "\n" for c in text) else repr(text) for text in self.texts(x[:n]))
        return "\n---\n".join(shown)

    def texts(self, x: Tensor) -> list[str]:
        """Return one text per row. Bytes that are no UTF-8, such as a character that was cut in two, become U+FFFD.

        Args:
            x: States, (n, length).
        """
        states = self.check(x)
        if self.alphabet is None:
            return [row.tobytes().decode("utf-8", "replace") for row in states.to(torch.uint8).numpy()]
        return ["".join(self.alphabet[state] for state in row) for row in states.tolist()]

    def show_alphabet(self) -> str:
        """Return the characters, for a message."""
        return "bytes" if self.alphabet is None else repr(self.alphabet)


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8: save it as UTF-8, or train with "
            "coding='bytes'"
        ) from error


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
