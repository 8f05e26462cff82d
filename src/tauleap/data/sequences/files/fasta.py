"""FASTA: proteins, DNA and RNA with a header each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tauleap.data.sequences.files.records import Record, SequenceFile, check_suffix, numbered_lines, shown_line
from tauleap.data.sequences.tokens import Text

SUFFIXES = (".fasta", ".fa", ".faa", ".fna")
_LINE = 60
"""Letters per line of the files that are written, as in the files of UniProt."""


@dataclass(frozen=True)
class Fasta(SequenceFile):
    """Read records of a header, which begins with ">", and lines with the sequence.

    Args:
        suffix: The ending of the files that are written. Default: ".fasta".
    """

    kind: ClassVar[str] = "fasta"
    suffix: str = ".fasta"

    def __post_init__(self) -> None:
        check_suffix(self.suffix, SUFFIXES)

    def read(self, path: Path, *, incomplete: bool = False) -> list[Record]:
        records: list[Record] = []
        header: str | None = None
        begin, parts = 0, list[str]()

        def finish() -> None:
            if header is None:
                return
            if not parts and not incomplete:
                raise ValueError(
                    f"{path}, line {begin:,}: the record {shown_line(header)} has no sequence: write it into the "
                    "following lines, or remove the header"
                )
            records.append(Record("".join(parts), begin + 1, 0, (header,)))

        for number, line in enumerate(numbered_lines(path), start=1):
            content = line.strip()
            if content.startswith(">"):
                finish()
                header, begin, parts = content[1:].strip(), number, []
            elif content.startswith(";") or not content:
                continue  # comments of old files, and empty lines between records
            elif header is None:
                raise ValueError(
                    f"{path}, line {number:,}, column 1: a FASTA file begins with a header such as '>name', got "
                    f"{shown_line(content)}: write a header above each sequence, or rename the file to .txt for one "
                    "row per line"
                )
            else:
                parts.append("".join(content.split()))
        finish()
        if not records:
            raise ValueError(f"{path} has no sequences: write a header such as '>name' and a sequence below it")
        return records

    def place(self, path: Path, record: Record, at: int) -> str:
        left = at
        for number, line in enumerate(numbered_lines(path)[record.line - 1 :], start=record.line):
            letters = [column for column, letter in enumerate(line, start=1) if not letter.isspace()]
            if line.lstrip().startswith(";"):
                continue
            if left < len(letters):
                return f"{path}, line {number:,}, column {letters[left]:,}"
            left -= len(letters)
        return f"{path}, line {record.line:,}"

    def content(self, texts: Sequence[Text], extras: Sequence[tuple[str, ...]] | None, first: int) -> str:
        lines: list[str] = []
        for number, text in enumerate(texts):
            letters = str(text)
            name = f"sample_{first + number}" if extras is None else extras[number][0]
            lines += [f">{name}", *(letters[at : at + _LINE] for at in range(0, len(letters), _LINE))]
        return "".join(f"{line}\n" for line in lines)
