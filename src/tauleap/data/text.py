"""The format of text: rows of characters or bytes of equal length."""

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
"""Characters or bytes per row unless the user gives another length."""
_MAX_CHARACTERS = 256
"""Different characters up to which they are the states; for more, bytes give fewer states."""


@dataclass(frozen=True)
class TextFormat(Format):
    """Read and write rows of characters, or of bytes.

    Args:
        length: The number of characters or bytes per row, >= 1.
        alphabet: The character of each state, sorted; None if the states are bytes 0..255.
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
            raise ValueError(
                f"an alphabet must be two or more different characters in sorted order, got {self.alphabet!r:.60}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def num_states(self) -> int:
        return 256 if self.alphabet is None else len(self.alphabet)

    @staticmethod
    def open(
        path: Path, *, length: int = LENGTH, coding: Literal["auto", "characters", "bytes"] = "auto"
    ) -> LoadedData:
        """Cut a text into consecutive rows, without the remainder that does not fill a row.

        The states are the different characters of the text, or bytes if it has more than 256 or is not UTF-8.

        Args:
            path: A text file.
            length: The number of characters or bytes per row, >= 1. Default: 64.
            coding: "characters", "bytes", or "auto" for the rule above. Default: "auto".

        Raises:
            ValueError: The text is too short, or cannot be encoded in this way.
        """
        if coding not in ("auto", "characters", "bytes"):
            raise ValueError(f"coding must be auto, characters or bytes, got {coding!r}")
        length = _check.integer("length", length, least=1)
        content = limits.contents(path)
        alphabet, description = None, "bytes, as coding='bytes' says"
        codes = np.frombuffer(content, dtype=np.uint8)
        if coding != "bytes":
            try:
                text = _decoded(content, path)
            except ValueError:
                if coding == "characters":
                    raise
                description = "bytes, because the file is not UTF-8"
            else:
                points, states = np.unique(_points(text), return_inverse=True)
                if len(points) > (_MAX_CHARACTERS if coding == "auto" else limits.STATES):
                    description = f"bytes, because there are {len(points)} different characters"
                    if coding == "characters":
                        raise ValueError(f"{path} has {len(points)} different characters: write coding='bytes'")
                else:
                    alphabet, codes = "".join(map(chr, points.tolist())), states
                    description = f"{len(points)} different characters"
        if alphabet is not None and len(alphabet) < 2:
            raise ValueError(
                f"{path} contains only the character {alphabet!r}: give a text with two or more different characters"
            )
        if len(codes) < 2 * length:
            raise ValueError(
                f"{path} has {len(codes)} characters, too few for two rows of {length}: write a smaller length"
            )
        form = TextFormat(length, alphabet)
        dtype = torch.uint8 if form.num_states <= 256 else torch.int32
        x = windows.cut(torch.from_numpy(codes.astype(np.int32)).to(dtype), length)
        rest = len(codes) % length
        report = [
            f"{path.name}: {description}; {len(x)} rows of {length}"
            + (f", the last {rest} left out" if rest else "")
            + " (--lines: one row per line)"
        ]
        return LoadedData(Dataset(x, form.num_states), form, report)

    def read(self, path: Path) -> Dataset:
        """Return all rows of a text; values after its end are missing, so that completion continues the text.

        Args:
            path: The file.
        """
        content = limits.contents(path)
        if self.alphabet is None:
            codes = np.frombuffer(content, dtype=np.uint8)
        else:
            text = _decoded(content, path)
            points, alphabet = _points(text), _points(self.alphabet)
            codes = np.searchsorted(alphabet, points).clip(max=len(alphabet) - 1)
            wrong = np.flatnonzero(alphabet[codes] != points)
            if len(wrong):
                at = int(wrong[0])
                line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
                raise ValueError(
                    f"{path}, line {line}, column {column}: {text[at]!r} is not in the training data; accepted "
                    f"are {self.show_alphabet()}"
                )
        x, missing = windows.pad(torch.from_numpy(codes.astype(np.int32)), self.length)
        return Dataset(x, self.num_states, missing=missing if bool(missing.any()) else None)

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", "continues a text"

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}.txt"
        with _files.atomic_write(path) as file:
            for number, text in enumerate(self.texts(x), start=first):
                file.write(f"=== {number}\n{text}\n".encode("utf-8", "surrogatepass"))
        return [path]

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        printable = (
            text if all(c.isprintable() or c == "\n" for c in text) else repr(text) for text in self.texts(x[:n])
        )
        return "\n---\n".join(printable)

    def texts(self, x: Tensor) -> list[str]:
        """Return one text per row; bytes that are not UTF-8, such as part of a character, become U+FFFD.

        Args:
            x: States, (n, length).
        """
        states = self.check(x)
        if self.alphabet is None:
            return [row.tobytes().decode("utf-8", "replace") for row in states.to(torch.uint8).numpy()]
        return ["".join(self.alphabet[state] for state in row) for row in states.tolist()]

    def show_alphabet(self) -> str:
        """Return the accepted characters for an error message."""
        return "bytes" if self.alphabet is None else repr(self.alphabet)


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8: save the file as UTF-8, or train "
            "with coding='bytes'"
        ) from error


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
