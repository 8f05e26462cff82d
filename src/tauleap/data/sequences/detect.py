"""Find out how a file is to be read: as rows or as one text, and with which tokeniser."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tauleap._formats import registration
from tauleap.data import limits
from tauleap.data.sequences.files import Fasta, Lines, Record, SequenceFile
from tauleap.data.sequences.files.lines import SMILES
from tauleap.data.sequences.files.records import shown_line
from tauleap.data.sequences.tokens.residues import ALL_AMINO, ALL_BASES

_LEAST_LINES, _WORDS, _SHARE, _LONGEST = 10, 3, 0.95, 1024
_MOST_CHARACTERS = 1024
"""Different characters up to which they are the symbols; for more, bytes give fewer states."""
_LONG = 30
"""Letters from which a sequence of the letters of bases alone is hardly a protein by chance."""
_ALIGNED = frozenset(ALL_AMINO + "-.")
RULE = "its lines are short and none is empty"


def looks_like_records(path: Path) -> bool:
    """Return whether the lines of a text file are probably records of their own, such as names or molecules.

    They are if there are ten or more, none is empty, none has more than 1,024 characters, and 95 % have at most three
    words.

    Args:
        path: The file.
    """
    content = limits.contents(path).removeprefix(codecs.BOM_UTF8).rstrip()
    lines = content.split(b"\n")
    if len(lines) < _LEAST_LINES or any(not line.strip() or len(line) > _LONGEST for line in lines):
        return False
    return sum(len(line.split()) <= _WORDS for line in lines) >= _SHARE * len(lines)


def choose_tokens(file: SequenceFile, records: Sequence[Record], path: Path, column: str = "") -> tuple[str, str]:
    """Return the name of the tokeniser that suits rows, and the reason.

    Args:
        file: The kind of file.
        records: The rows.
        path: The file; its name may say that the rows are SMILES.
        column: The name of the column or entry with the rows. Default: none.

    Raises:
        ValueError: A FASTA file has DNA and proteins.
    """
    if any(not isinstance(record.text, str) for record in records):
        return "items", "because the rows are lists"
    if isinstance(file, Fasta):
        return _residues(records, path), "because of the letters of this FASTA file"
    name = column or path.name
    if file.suffix in SMILES or "smiles" in name.lower():
        return "smiles", f"because of the name {name!r}"
    characters = set().union(*(set(record.text) for record in records))
    if len(characters) > _MOST_CHARACTERS:
        return "bytes", f"because there are {len(characters):,} different characters"
    return "characters", ""


def _residues(records: Sequence[Record], path: Path) -> str:
    bases, other = None, None
    for record in records:
        letters = set(str(record.text).upper())
        if not letters <= set(ALL_AMINO):
            _check_alignment(records, path)
            return "characters"
        if not letters <= set(ALL_BASES):
            other = other or record
        elif len(record.text) >= _LONG and letters <= set("ACGTUN"):
            bases = bases or record
    if bases is not None and other is not None:
        raise ValueError(
            f"{path} has DNA or RNA in line {bases.line:,}, {shown_line(str(bases.text))}, and proteins in line "
            f"{other.line:,}, {shown_line(str(other.text))}: write them into two files, or --tokens amino to read all "
            "of them as proteins"
        )
    if other is not None:
        return "amino"
    # The letters that stand for several bases are rare in DNA and frequent in short proteins.
    letters = Counter(letter for record in records for letter in str(record.text).upper())
    plain = sum(letters[letter] for letter in "ACGTUN")
    return "bases" if 2 * plain >= letters.total() else "amino"


def _check_alignment(records: Sequence[Record], path: Path) -> None:
    """Raise ValueError unless everything but letters is a gap of an alignment."""
    for record in records:
        at = next((at for at, letter in enumerate(record.text) if str(letter).upper() not in _ALIGNED), None)
        if at is not None:
            raise ValueError(
                f"{Fasta().place(path, record, at)}: {record.text[at]!r} is neither a letter of IUPAC nor a gap, - or "
                ".: correct it, or write --tokens characters"
            )


def is_table(path: Path) -> bool:
    """Return whether a file is read as a table, one of whose columns has the rows.

    Args:
        path: The file.
    """
    return path.suffix.lower() in (*registration("table").suffixes, "")


def file_of(path: Path, text: str | None = None) -> SequenceFile:
    """Return the kind of a file by its ending.

    Args:
        path: The file.
        text: The name of the column or entry with the rows. Default: none.
    """
    from tauleap.data.sequences.files import JsonLines, fasta, json_lines

    suffix = path.suffix.lower()
    if suffix in fasta.SUFFIXES:
        return Fasta(suffix)
    if suffix in json_lines.SUFFIXES:
        return JsonLines(suffix, text)
    return Lines(suffix if suffix in SMILES else ".txt")
