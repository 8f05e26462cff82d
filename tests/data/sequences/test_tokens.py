"""Tokenisers: what they accept, and that texts come back."""

import json

import pytest

from tauleap.data.sequences.files import Lines
from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.sequences.tokens import TOKENISERS, Items, UnknownSymbolError, tokeniser_from_config

TEXTS = {
    "characters": ["Ünn", "b\tn"],
    "bytes": ["Ünn", "b?"],
    "smiles": ["C[C@@H](Cl)Br", "c1cc%12nc1", "[Na+].[O-]"],
    "amino": ["MKVU", "LA"],
    "bases": ["ACGU", "ACR"],
    "words": ["to be or", "not to be"],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_come_back(kind: str) -> None:
    tokeniser = TOKENISERS[kind].fit(TEXTS[kind])
    assert tokeniser_from_config(json.loads(json.dumps(tokeniser.config()))) == tokeniser
    for text in TEXTS[kind]:
        symbols = tokeniser.encode(text)
        assert tokeniser.decode(symbols) == text
        assert max(symbols) < tokeniser.num_symbols
    mark = tokeniser.wildcard
    assert tokeniser.encode_open(mark * 2, mark) == [-1, -1]
    with pytest.raises(ValueError, match=r"must have (the fields|a kind)"):
        tokeniser_from_config(tokeniser.config() | {"more": 1})


def test_symbols_of_each_kind() -> None:
    assert TOKENISERS["smiles"].fit(TEXTS["smiles"]).encode("BrCl") == [5, 7]
    assert TOKENISERS["amino"].fit(["MK"]).num_symbols == 20
    assert TOKENISERS["amino"].fit(["MK"]).encode("mXk") == [10, -1, 8]
    assert TOKENISERS["bases"].fit(["ACNN"]).wildcard == "N"
    words = TOKENISERS["words"].fit(["a b a", "a c c"], vocabulary=2)
    assert words.decode(words.encode("c a d")) == "<rare> a <rare>"
    assert TOKENISERS["bytes"]().decode([0x62, 0xFF, 0x0A]) == "b��"  # pyright: ignore[reportCallIssue]
    items = Items.fit([("a", "b")])
    assert items.encode_open(("b", "?"), "?") == [1, -1]


@pytest.mark.parametrize(
    ("kind", "text", "symbol", "at"),
    [
        ("characters", "Ünx", "x", 2),
        ("smiles", "CClN", "N", 3),
        ("amino", "MK1", "1", 2),
        ("bases", "ACE", "E", 2),
        ("words", "to be  who", "who", 7),
    ],
)
def test_places_of_unknown_symbols(kind: str, text: str, symbol: str, at: int) -> None:
    tokeniser = TOKENISERS[kind].fit(TEXTS[kind])
    with pytest.raises(UnknownSymbolError) as raised:
        tokeniser.encode(text)
    assert (raised.value.symbol, raised.value.at) == (symbol, at)
    with pytest.raises(UnknownSymbolError) as raised:
        tokeniser.encode_open(f"{tokeniser.wildcard} {text}" if kind == "words" else f"{tokeniser.wildcard}{text}", tokeniser.wildcard)  # fmt: skip # noqa: E501
    assert raised.value.at >= at


def test_letters_outside_an_alphabet() -> None:
    with pytest.raises(UnknownSymbolError, match="'1' is not in"):
        TOKENISERS["bases"].fit(["ACGT", "AC1"])
    with pytest.raises(ValueError, match="this tokeniser takes texts, got a list of tokens: give a text"):
        TOKENISERS["characters"].fit([("a", "b")])
    with pytest.raises(ValueError, match="the rows contain only 'a'"):
        TOKENISERS["characters"].fit(["a", "aa"])
    with pytest.raises(ValueError, match="must be 2 to 100,000 different ones"):
        tokeniser_from_config({"kind": "characters", "symbols": ["a", "a"]})
    with pytest.raises(ValueError, match="single characters"):
        tokeniser_from_config({"kind": "characters", "symbols": ["a", "bc"]})
    with pytest.raises(ValueError, match="must be letters of"):
        tokeniser_from_config({"kind": "bases", "symbols": "AE"})


def test_byte_pairs() -> None:
    pytest.importorskip("tokenizers")
    texts = ["the cat sat on the mat", "the bat, the hat", "Ünïcode  spaces"] * 3
    pairs = TOKENISERS["bpe"].fit(texts, vocabulary=280)
    assert 256 < pairs.num_symbols <= 280
    assert tokeniser_from_config(json.loads(json.dumps(pairs.config()))) == pairs
    for text in [*texts, "never seen: 漢字", ""]:
        assert pairs.decode(pairs.encode(text)) == text
    assert len(pairs.encode("the cat")) < len("the cat")
    assert "\n" not in pairs.decode(list(range(pairs.num_symbols)))
    form = SequenceFormat(4, pairs, Lines())
    # No character that can be typed is free to mark a gap.
    assert "whose mark --wildcard names" in form.completion_example(form.encode_texts(["the"]), "FILE")[1]


def test_wrong_configurations_of_byte_pairs_are_refused() -> None:
    for model in ("", "{}", "[]", '{"model": {"vocab": {"a": 0}}}', '{"model": {"vocab": 3}}'):
        with pytest.raises(ValueError, match="kind 'bpe' must"):
            tokeniser_from_config({"kind": "bpe", "model": model})
    vocabulary = json.dumps({"model": {"vocab": {str(number): 2 * number for number in range(256)}}})
    with pytest.raises(ValueError, match="numbers 0, 1, 2"):
        tokeniser_from_config({"kind": "bpe", "model": vocabulary})
