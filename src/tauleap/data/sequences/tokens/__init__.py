"""Tokenisers: one file each, saved as JSON with the model."""

from __future__ import annotations

from collections.abc import Mapping

from tauleap.data.sequences.tokens.byte_pairs import BytePairs
from tauleap.data.sequences.tokens.characters import Characters
from tauleap.data.sequences.tokens.items import Items
from tauleap.data.sequences.tokens.raw_bytes import RawBytes
from tauleap.data.sequences.tokens.residues import AminoAcids, Bases
from tauleap.data.sequences.tokens.smiles import Smiles
from tauleap.data.sequences.tokens.tokeniser import UNKNOWN, Text, Tokeniser, UnknownSymbolError
from tauleap.data.sequences.tokens.words import Words

__all__ = ["TOKENISERS", "UNKNOWN", "Items", "Text", "Tokeniser", "UnknownSymbolError", "tokeniser_from_config"]

TOKENISERS: dict[str, type[Tokeniser]] = {
    cls.kind: cls for cls in (Characters, RawBytes, Smiles, AminoAcids, Bases, Words, BytePairs)
}
"""Tokenisers of texts by name."""


def tokeniser_from_config(config: object) -> Tokeniser:
    """Return the tokeniser of a configuration that :meth:`Tokeniser.config` returned.

    >>> tokeniser_from_config({"kind": "characters", "symbols": ["a", "b"]}).num_symbols
    2

    Args:
        config: A mapping with the kind and the fields of the tokeniser.

    Raises:
        ValueError: The configuration does not describe a tokeniser.
    """
    known = TOKENISERS | {Items.kind: Items}
    kind = config.get("kind") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(kind, str) or kind not in known:
        raise ValueError(f"a tokeniser must have a kind, one of {', '.join(known)}, got {config!r:.60}")
    return known[kind].from_config(config)
