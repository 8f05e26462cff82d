"""Kinds of files with rows of symbols: one file each."""

from __future__ import annotations

from collections.abc import Mapping

from tauleap.data.sequences.files.column import Column
from tauleap.data.sequences.files.fasta import Fasta
from tauleap.data.sequences.files.json_lines import JsonLines
from tauleap.data.sequences.files.lines import Lines
from tauleap.data.sequences.files.records import Record, SequenceFile

__all__ = ["KINDS", "Column", "Fasta", "JsonLines", "Lines", "Record", "SequenceFile", "file_from_config"]

KINDS: dict[str, type[SequenceFile]] = {cls.kind: cls for cls in (Lines, Fasta, JsonLines, Column)}
"""Kinds of files by name."""


def file_from_config(config: object) -> SequenceFile:
    """Return the kind of file of a configuration that :meth:`SequenceFile.config` returned.

    >>> file_from_config({"kind": "fasta", "suffix": ".fa"})
    Fasta(suffix='.fa')

    Args:
        config: A mapping with the kind and the fields.

    Raises:
        ValueError: The configuration does not describe a kind of file.
    """
    kind = config.get("kind") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"a file of sequences must have a kind, one of {', '.join(KINDS)}, got {config!r:.60}")
    return KINDS[kind].from_config(config)
