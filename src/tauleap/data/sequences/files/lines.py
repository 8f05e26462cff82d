"""Files with one row per line: names, words, molecules in SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tauleap.data.sequences.files.records import (
    Record,
    SequenceFile,
    check_empty,
    check_suffix,
    numbered_lines,
)
from tauleap.data.sequences.tokens import Text

SMILES = (".smi", ".smiles")
_HEADERS = ("smiles", "canonical_smiles", "isomeric_smiles", "smi", "mol", "molecule")
"""First words of files with a line of headers; none of them is a molecule."""


@dataclass(frozen=True)
class Lines(SequenceFile):
    """Read one row per line. In ``.smi`` and ``.smiles`` the row is the first word, and the rest is its name.

    Args:
        suffix: The ending of the files that are written. Default: ".txt".
    """

    kind: ClassVar[str] = "lines"
    suffix: str = ".txt"

    def __post_init__(self) -> None:
        check_suffix(self.suffix, (".txt", *SMILES))

    def read(self, path: Path, *, incomplete: bool = False) -> list[Record]:
        lines = numbered_lines(path, keep_empty=incomplete)
        if not incomplete:
            also = ", or write --no-lines to read the file as one text" if self.suffix == ".txt" else ""
            check_empty(path, lines, f"remove it{also}")
        if self.suffix not in SMILES:
            return [Record(line, number, 1) for number, line in enumerate(lines, start=1)]
        if lines[0].split()[:1] and lines[0].split()[0].lower() in _HEADERS:
            raise ValueError(f"{path}, line 1, column 1: {lines[0].split()[0]!r} is a header: remove this line")
        records = []
        for number, line in enumerate(lines, start=1):
            word, _, name = line.strip().replace("\t", " ").partition(" ")
            records.append(Record(word, number, line.find(word) + 1, (name.strip(),)))
        return records

    def content(self, texts: Sequence[Text], extras: Sequence[tuple[str, ...]] | None, first: int) -> str:
        lines = [str(text) for text in texts]
        if extras is not None:
            lines = [
                f"{line} {extra[0]}" if extra and extra[0] else line for line, extra in zip(lines, extras, strict=True)
            ]
        return "".join(f"{line}\n" for line in lines)
