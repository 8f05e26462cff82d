"""Rows of symbols from files to states and back."""

import json
from pathlib import Path

import pytest
import torch

from tauleap.data import format_from_config, open_data
from tauleap.data.memory import as_dataset, has_different_lengths, read
from tauleap.data.sequences.encode import choose_length
from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.sequences.opening import open_texts
from tauleap.data.text import TextFormat

NAMES = ["Ann", "Bob", "Anna", "Bea", "Al", "Ben", "Nan", "Ella", "Lea", "Noel"]
LINES = {"kind": "lines", "suffix": ".txt"}


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def opened(path: Path, **options: object) -> tuple[SequenceFormat, torch.Tensor, list[str]]:
    loaded = open_data(path, **options)  # pyright: ignore[reportArgumentType]
    assert isinstance(loaded.form, SequenceFormat)
    assert format_from_config(json.loads(json.dumps(loaded.form.config()))) == loaded.form
    return loaded.form, loaded.dataset.in_memory(), loaded.report


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.txt", "\n".join(NAMES), NAMES),
        ("crlf.txt", "\ufeff" + "\r\n".join(NAMES) + "\r\n\r\n", NAMES),
        ("a.smi", "CCO ethanol\n[Na+].Cl\tsalt of\nC\n", ["CCO", "[Na+].Cl", "C"]),
        ("a.smiles", "CBr\nc1ccccc1\n", ["CBr", "c1ccccc1"]),
        ("a.fasta", ">one first\nMKV\nLA\n\n;note\n>two\nmw w\n", ["MKVLA", "MWW"]),
        ("a.fna", ">1\nACG\n>2\nAC\n", ["ACG", "AC"]),
        ("a.jsonl", '"ab"\n"a\\nb"\n""\n', ["ab", "a\nb", ""]),
        ("b.jsonl", '["to", "be"]\n[]\n["be"]\n', [("to", "be"), (), ("be",)]),
        ("c.jsonl", "[17, 4]\n[4, 4, 99]\n", [(17, 4), (4, 4, 99)]),
    ],
)
def test_rows_of_every_kind_of_file_come_back(name: str, content: str, texts: list, tmp_path: Path) -> None:
    form, x, report = opened(put(tmp_path, name, content))
    assert form.texts(x) == texts
    assert x.shape == (len(texts), max(map(len, form.texts(x))) + 1) or name.endswith(("smi", "smiles"))
    assert bool((x[:, -1] == form.end).all())
    noun = "record" if ">" in content else "line"
    if not name.endswith("txt"):
        why = f"because of the ending {Path(name).suffix}"
        assert report[0] == f"{name}: one row per {noun}, {why} (--no-lines: one text)"
    assert f"{len(texts)} rows of" in report[-1]
    (path,) = form.write(x, tmp_path / "out")
    assert path.suffix == Path(name).suffix
    assert form.texts(form.read(path).in_memory()) == texts


def test_every_site_behind_the_end_has_the_end(tmp_path: Path) -> None:
    form, x, _ = opened(put(tmp_path, "a.smi", "CCO\nC\n"))
    assert form.shape == (4,)
    assert x.tolist() == [[0, 0, 1, 2], [0, 2, 2, 2]]
    assert form.texts(torch.tensor([[0, 2, 1, 0]])) == ["C"]


def test_names_of_records_are_written_back(tmp_path: Path) -> None:
    form, _, _ = opened(put(tmp_path, "a.fasta", ">sp|P1 one\nMKVL\n>two\nMA\n"))
    data, _ = form.read_incomplete(put(tmp_path, "b.fasta", ">three words\nMXV\n>empty\n>five\nM\n"))
    assert data.missing is not None
    assert data.missing.int().tolist() == [[0, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0, 1, 1, 1, 0]]
    x = torch.where(data.missing, 2, data.in_memory().long())
    (path,) = form.write_completed(x, ~data.missing, data, tmp_path)
    assert path.read_text() == ">three words\nMDV\n>empty\nDDDD\n>five\nMDDD\n"
    (path,) = form.write(x, tmp_path, first=7)
    assert path.read_text().startswith(">sample_7\n")
    molecules, _, _ = opened(put(tmp_path, "a.smi", "CCO ethanol\nC\n"))
    data, _ = molecules.read_incomplete(put(tmp_path, "b.smi", "C first\nO\n"))
    (path,) = molecules.write_completed(data.in_memory(), data.known(), data, tmp_path)
    assert path.read_text() == "C first\nO\n"


def test_prefixes_are_continued_and_rows_with_wildcards_end(tmp_path: Path) -> None:
    form, _, _ = opened(put(tmp_path, "names.txt", "\n".join(NAMES)))
    assert form.wildcard == "?"
    data, _ = form.read_incomplete(put(tmp_path, "gaps.txt", "A\nB?b\n\nNoel\n"))
    assert data.missing is not None
    assert data.missing.int().tolist() == [[0, 1, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]]
    empty, _ = form.read_incomplete(put(tmp_path, "empty.txt", "A\n\n\n"))
    assert len(empty) == 3
    other, _ = form.read_incomplete(put(tmp_path, "gaps.txt", "B**b\n"), wildcard="*")
    assert other.missing is not None
    assert other.missing.int().tolist() == [[0, 1, 1, 0, 0]]
    with pytest.raises(
        ValueError, match=r"gaps\.txt, line 1, column 2: '\*' is not in the training data; accepted are"
    ):
        form.read_incomplete(tmp_path / "gaps.txt")
    with pytest.raises(
        ValueError, match=r"line 2, column 1: the row has 5 symbols, and the model's rows have at most 4"
    ):
        form.read_incomplete(put(tmp_path, "long.txt", "A\nAnnAn\n"))
    with pytest.raises(ValueError, match="wildcard must be one or more characters"):
        form.read_incomplete(tmp_path / "gaps.txt", wildcard="")
    starred, _, _ = opened(put(tmp_path, "a.smi", "C?\nC_\n"))
    assert starred.wildcard == "*"


def test_texts_are_rows_if_their_lines_look_like_records(tmp_path: Path) -> None:
    names = put(tmp_path, "names.txt", "\n".join(NAMES) + "\n")
    _, x, report = opened(names)
    assert len(x) == len(NAMES)
    why = "because its lines are short and none is empty"
    assert report[0] == f"names.txt: one row per line, {why} (--no-lines: one text)"
    one = open_data(names, lines=False, length=4)
    assert isinstance(one.form, TextFormat)
    assert one.report[0].endswith("(--lines: one row per line)")
    assert isinstance(open_data(names, coding="bytes", length=4).form, TextFormat)
    prose = put(tmp_path, "prose.txt", "It was the best of times\n" * 12)
    assert isinstance(open_data(prose, length=4).form, TextFormat)
    assert opened(prose, lines=True)[2][0] == "prose.txt: one row per line, as given (--no-lines: one text)"
    assert opened(prose, tokens="words")[0].texts(opened(prose, tokens="words")[1])[0] == "It was the best of times"
    for content in ("\n".join(NAMES[:9]), "\n".join([*NAMES, "", *NAMES]), "\n".join([*NAMES, "x" * 1025])):
        assert isinstance(open_data(put(tmp_path, "t.txt", content), length=4).form, TextFormat)
    molecules = open_data(put(tmp_path, "a.smi", "CCO\nOCC\n"), lines=False, length=4)
    assert isinstance(molecules.form, TextFormat)
    assert molecules.form.alphabet == "\nCO"


def test_smiles_by_the_name_of_a_text_or_column(tmp_path: Path) -> None:
    content = "\n".join(["CCl", "c1ccccc1", "BrCC"] * 4)
    form, _, report = opened(put(tmp_path, "my_smiles.txt", content))
    assert form.tokens.kind == "smiles"
    assert "because of the name 'my_smiles.txt' (--tokens)" in report[1]
    assert opened(put(tmp_path, "names.txt", content))[0].tokens.kind == "characters"
    table = put(tmp_path, "smiles.csv", "name\n" + content)
    assert opened(table, text="name")[0].tokens.kind == "characters"


def test_alphabets_of_fasta_files(tmp_path: Path) -> None:
    aligned, _, _ = opened(put(tmp_path, "a.fa", ">one\nMK-V\n>two\nM..V\n"))
    assert aligned.tokens.kind == "characters"
    for content, kind in ((">a\nMKV\n>b\nMMV\n", "amino"), (">a\nACGTN\n>b\nACR\n", "bases")):
        assert opened(put(tmp_path, "a.fa", content))[0].tokens.kind == kind


def test_old_line_breaks_separate_rows(tmp_path: Path) -> None:
    form, x, report = opened(put(tmp_path, "a.smi", "CC\rCO\r"))
    assert form.texts(x) == ["CC", "CO"]
    assert ": 2 rows of 2 symbols and their end" in report[1]


def test_long_rows_are_left_out_and_reported(tmp_path: Path) -> None:
    assert choose_length(torch.tensor([5] * 100 + [7]).numpy(), None) == 7
    assert choose_length(torch.tensor([5] * 999 + [90]).numpy(), None) == 5
    assert choose_length(torch.tensor([5000] * 9).numpy(), None) == 1024
    assert choose_length(torch.tensor([4] * 40 + [10**6]).numpy(), None) == 4
    lines = ["CC"] * 500 + ["C" * 70]
    form, x, report = opened(put(tmp_path, "a.smi", "\n".join(lines[::-1]) + "\nO"))
    assert form.length == 2
    assert len(x) == 501
    assert report[2] == (
        "a.smi: 1 of 502 rows have more than 2 symbols and are left out (line 1 has 70); --length changes this"
    )
    assert opened(tmp_path / "a.smi", length=80)[0].length == 80
    data, report = form.read_with_report(tmp_path / "a.smi")
    assert len(data) == 501
    assert report[0].startswith("a.smi: 1 of 502 rows have more than 2 symbols")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.smi", "CC\n\nC\n\nO", r"a\.smi, line 2 is empty, one of 2 such lines: remove it$"),
        ("a.txt", "CC\n\nC", r"a\.txt, line 2 is empty: remove it, or write --no-lines"),
        ("a.txt", "\n\n", r"a\.txt has no lines with symbols"),
        ("a.txt", "x" * 10**6 + "\ny\n", r"1 of 2 rows .* \(line 1 has 1,000,000\), .*, or --no-lines"),
        ("a.fa", ">a\n" + "ACGT" * 10**5, r"1 of 1 rows have more than 1,024 .* are left: write shorter rows$"),
        ("a.jsonl", "\n".join(["[" + "1,2," * 999 + "1]"] * 3), r"3 of 3 rows .*, or --length 1999"),
        ("a.smi", "SMILES name\nCC a\n", r"a\.smi, line 1, column 1: 'SMILES' is a header: remove this line"),
        ("a.fa", ">a\nMK\nV1L\n>b\nMK\n", r"a\.fa, line 3, column 2: '1' is neither a letter of IUPAC nor a gap"),
        ("a.jsonl", '["a"]\n["b", ""]\n', r"a\.jsonl, line 2, item 2 of the list is an empty text: remove it"),
        ("a.jsonl", "[1]\n[" + "1" * 30 + "]\n", r"a\.jsonl, line 2: .* cannot be read \(a whole number of 30 digits"),
        ("a.txt", "aaa\na\n", r"a\.txt: the rows contain only 'a': give rows with two or more"),
        ("a.txt", b"ab\na\xff\n", r"a\.txt, line 2, byte 2: 0xff is not UTF-8: save the file as UTF-8"),
        ("a.fa", "MKV\n", r"a\.fa, line 1, column 1: a FASTA file begins with a header such as '>name', got 'MKV'"),
        ("a.fa", ">one\n>two\nMK\n", r"a\.fa, line 1: the record 'one' has no sequence: write it into the"),
        ("a.fa", ";only\n;notes\n", r"a\.fa has no sequences: write a header such as '>name'"),
        ("a.fa", ">dna\n" + "ACGT" * 10 + "\n>p\nMKVLE\n", r"a\.fa has DNA or RNA in line 2, .* proteins in line 4"),
        ("a.jsonl", '"a"\n{"text": "b"}\n', r"a\.jsonl, line 2 is an object with 'text': write --text NAME"),
        ("a.jsonl", '"a"\n["b"]\n', r"a\.jsonl, line 2 is a list of texts, and the lines above it are a text"),
        ("a.jsonl", '[1]\n["b"]\n', r"line 2 is a list of texts, and the lines above it are a list of whole numbers"),
        ("a.jsonl", '["a", 1]\n', r"a\.jsonl, line 1, item 2 of the list is a number, 1: accepted are texts only"),
        ("a.jsonl", '["a", ["b"]]\n', r"line 1, item 2 of the list is a list, \['b'\]: accepted are texts only"),
        ("a.jsonl", "[true]\n", r"line 1, item 1 of the list is a boolean, True: accepted are"),
        ("a.jsonl", "3\n", r"a\.jsonl, line 1 is a number: accepted are a text in quotes"),
        ("a.jsonl", "null\n", r"line 1 is null: accepted are"),
        ("a.jsonl", '"a"\n"b\n', r"a\.jsonl, line 2, column 1: '\"b' is not JSON: write a text in quotes"),
        ("a.jsonl", '"a"\n\n"b"\n', r"a\.jsonl, line 2 is empty: remove it; for a row without symbols"),
    ],
)  # fmt: skip
def test_wrong_files_are_explained(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        open_data(put(tmp_path, name, content), lines=True if name.endswith("txt") else None)


def test_objects_of_json_lines_need_the_name_of_an_entry(tmp_path: Path) -> None:
    path = put(tmp_path, "a.jsonl", '{"id": 1, "text": "ab"}\n{"text": "b"}\n')
    form, x, _ = opened(path, text="text")
    assert form.texts(x) == ["ab", "b"]
    (written,) = form.write(x, tmp_path, stem="out")
    assert written.read_text() == '{"text": "ab"}\n{"text": "b"}\n'
    data, _ = form.read_incomplete(path)
    (written,) = form.write_completed(data.in_memory(), data.known(), data, tmp_path)
    assert written.read_text() == '{"id": 1, "text": "ab"}\n{"text": "b"}\n'
    with pytest.raises(ValueError, match=r"line 1 has no entry 'body': add it, or write another name after --text"):
        open_data(path, text="body")
    with pytest.raises(ValueError, match=r"line 1 is no object, so that --text body cannot be read"):
        open_data(put(tmp_path, "b.jsonl", '"a"\n'), text="body")


def test_places_of_unknown_symbols(tmp_path: Path) -> None:
    form, _, _ = opened(put(tmp_path, "a.fasta", ">one\nMKV\n>two\nMA\n"))
    with pytest.raises(ValueError, match=r"b\.fasta, line 4, column 3: '1' is not in the training data; accepted are"):
        form.read(put(tmp_path, "b.fasta", ">one\nMK\n;note\nM 1\n"))
    tokens, _, _ = opened(put(tmp_path, "a.jsonl", "[17, 4]\n[4, 4, 99]\n"))
    with pytest.raises(
        ValueError, match=r"b\.jsonl, line 2, item 1: 5 is not in the training data; accepted are 4, 17"
    ):
        tokens.read(put(tmp_path, "b.jsonl", "[4]\n[5]\n"))
    data, _ = tokens.read_incomplete(put(tmp_path, "c.jsonl", '[4, "?", 17]\n[]\n'))
    assert data.known().int().tolist() == [[1, 0, 1, 1], [0, 0, 0, 1]]
    words, _, _ = opened(put(tmp_path, "w.txt", "to be\nnot to be\n"), lines=True, tokens="words")
    with pytest.raises(ValueError, match=r"v\.txt, line 1, column 4: 'ben' is not in the training data"):
        words.read(put(tmp_path, "v.txt", "to ben\n"))


def test_lists_of_different_lengths() -> None:
    data, form, kind = as_dataset(["ab", "a"])
    assert isinstance(form, SequenceFormat)
    assert kind.name == "texts"
    assert data.sequences is not None
    assert data.sequences.characters is not None
    assert data.sequences.characters.tolist() == [3, 2]
    assert data.sequences.symbols(data.in_memory()).tolist() == [3, 2]
    chosen = data.select(torch.tensor([1])).sequences
    assert chosen is not None
    assert chosen.characters is not None
    assert chosen.characters.tolist() == [2]
    assert read(["b"], form=form, num_states=3).x.tolist() == [[1, 2, 2]]
    assert read(["b"], form=form, num_states=3, incomplete=True).known().tolist() == [[True, False, True]]
    again = read([[0, 1, 2]], form=form, num_states=3)
    assert again.sequences is not None
    with pytest.raises(ValueError, match=r"row 0, position 1: 'x' is not in the training data; accepted are 'ab'"):
        read(["ax"], form=form, num_states=3)
    with pytest.raises(ValueError, match=r"row 1 has 3 symbols, and the model's rows have at most 2"):
        read(["a", "aba"], form=form, num_states=3)
    tokens, form, _ = as_dataset([["to", "be"], ["to", "or"]])
    assert isinstance(form, SequenceFormat)
    assert form.texts(tokens.in_memory()) == [("to", "be"), ("to", "or")]
    with pytest.raises(
        ValueError, match=r"row 0, position 0: the model takes lists of tokens, got a text: give a list of tokens"
    ):
        read(["to"], form=form, num_states=4)
    assert not has_different_lengths([[1, 2], [3, 4]])
    assert isinstance(as_dataset(["ab", "ba"])[1], TextFormat)
    assert as_dataset([[1, 2], [3, 4]])[1] is None


@pytest.mark.parametrize(
    "config",
    [
        {"kind": "sequences"},
        {"kind": "sequences", "length": 0, "tokens": {"kind": "bytes"}, "file": {"kind": "fasta", "suffix": ".fa"}},
        {"kind": "sequences", "length": 2, "tokens": {"kind": "x"}, "file": {"kind": "fasta", "suffix": ".fa"}},
        {"kind": "sequences", "length": 2, "tokens": {"kind": "bytes"}, "file": {"kind": "fasta", "suffix": "/x"}},
        {"kind": "sequences", "length": 2, "tokens": {"kind": "bytes", "a": 1}, "file": LINES},
        {"kind": "sequences", "length": 2, "tokens": {"kind": "characters", "symbols": ["a", 3]}, "file": LINES},
        {"kind": "sequences", "length": 2, "tokens": {"kind": "amino", "symbols": "A?"}, "file": LINES},
        {"kind": "sequences", "length": 2, "tokens": {"kind": "items", "symbols": ["a", 1]}, "file": LINES},
        {"kind": "sequences", "length": 2, "tokens": 3, "file": None},
    ],
)  # fmt: skip
def test_wrong_configurations_are_refused(config: dict) -> None:
    with pytest.raises(ValueError, match=r"must|has the wrong type"):
        format_from_config(config)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a"], ["b", 3]], r"^the list: row 1, position 1: 3 cannot be a token here: give texts"),
        ([[1], ["a"]], r"row 1, position 0: 'a' cannot be a token here"),
        ([[""], ["a", "b"]], r"row 0, position 0: '' cannot be a token here"),
        ([["a"], "b"], r"row 1 is a text, and others are lists of tokens"),
        (["ab" * 999] * 3, r"^the list: 3 of 3 rows have more than 1,024 symbols \(row 0 has 1,998\), .*shorter rows$"),
    ],
)
def test_wrong_lists_are_explained(rows: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_texts(rows)


def test_reports_name_only_options_of_their_command(tmp_path: Path) -> None:
    report = open_texts(["ab", "ba"] * 200 + ["a" * 50]).report
    assert report[0].endswith("different characters")
    assert report[1] == "the list: 1 of 401 rows have more than 2 symbols and are left out (row 400 has 50)"
    form, _, _ = opened(put(tmp_path, "a.smi", "CC\nCO\n"))
    assert form.read_with_report(put(tmp_path, "b.smi", "CC\nCCO\n"))[1][0].endswith("(line 2 has 3)")
