"""Tables: categories and their names, cells nobody knows, and where what is wrong is found."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tauleap.data import format_from_config, limits, open_data
from tauleap.data.table.format import TableFormat

TEXT = 'name,level,"a ""quoted"", one"\nb,10,é\na,9,"x\ny"\n,10,\na,NA,é\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TEXT, encoding="utf-8")
    return tmp_path / "t.csv"


def test_categories_are_sorted_and_keep_their_names(table: Path, tmp_path: Path) -> None:
    opened = open_data(table)
    form = opened.form
    assert isinstance(form, TableFormat)
    assert form.columns == ("name", "level", 'a "quoted", one')
    assert form.categories == (("a", "b"), ("9", "10"), ("x\ny", "é"))  # numbers as numbers
    assert opened.dataset.x.tolist() == [[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert opened.dataset.missing is not None
    assert opened.dataset.missing.long().tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0]]
    assert form.sizes is None
    assert not form.ordinal
    assert format_from_config(form.config()) == form
    (path,) = form.write(opened.dataset.x[:2], tmp_path / "new" / "out")
    assert path.name == "samples.csv"
    assert path.read_text(encoding="utf-8") == 'name,level,"a ""quoted"", one"\nb,10,é\na,9,"x\ny"\n'
    assert form.preview(opened.dataset.x, 1) == 'name,level,"a ""quoted"", one"\nb,10,é'


def test_reading_back_by_name_in_any_order(table: Path, tmp_path: Path) -> None:
    form = open_data(table).form
    (tmp_path / "u.csv").write_text('level;more;"a ""quoted"", one";name\n9;1;é;b\n10;2;;\n', encoding="utf-8")
    read = form.read(tmp_path / "u.csv")
    assert read.x.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert read.missing is not None
    assert read.missing.long().tolist() == [[0, 0, 0], [1, 0, 1]]
    (tmp_path / "v.csv").write_text('level,name,"a ""quoted"", one"\n10,b,\n10,bb,\n')
    with pytest.raises(ValueError, match=r"v\.csv, line 3, column 'name': 'bb' is no category .* such as 'b'"):
        form.read(tmp_path / "v.csv")
    (tmp_path / "w.csv").write_text("level,name\n10,b\n")
    with pytest.raises(ValueError, match="has no column 'a \"quoted\", one'"):
        form.read(tmp_path / "w.csv")


def test_columns_of_different_sizes(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n" + "".join(f"{i % 3}\t{i % 2}\n" for i in range(12)))
    opened = open_data(tmp_path / "t.tsv")
    assert opened.form.sizes is not None
    assert opened.form.sizes.tolist() == [3, 2]
    assert opened.form.num_states == 3
    assert opened.dataset.sizes is not None
    assert torch.equal(opened.dataset.sizes, opened.form.sizes)


def test_quantities_only_where_all_columns_are(tmp_path: Path) -> None:
    rows = "".join(f"{i % 9},{i % 10 - 4},{'xyz'[i % 3]}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("a,b,c\n" + rows)
    assert not open_data(tmp_path / "t.csv").form.ordinal
    form = open_data(tmp_path / "t.csv", drop="c").form
    assert form.ordinal
    assert isinstance(form, TableFormat)
    assert form.categories[1] == tuple(map(str, range(-4, 6)))


def test_parquet_is_the_same_table(table: Path, tmp_path: Path) -> None:
    named = {
        "name": pa.array(["b", "a", None, "a"]).dictionary_encode(),
        "level": pa.array([10.0, 9.0, 10.0, None]),
        'a "quoted", one': ["é", "x\ny", None, "é"],
    }
    pq.write_table(pa.table(named), tmp_path / "t.parquet")
    one, other = open_data(table), open_data(tmp_path / "t.parquet")
    assert one.form == other.form
    assert torch.equal(one.dataset.x, other.dataset.x)
    assert other.dataset.missing is not None
    assert torch.equal(one.dataset.missing, other.dataset.missing)  # pyright: ignore[reportArgumentType]
    assert torch.equal(one.form.read(tmp_path / "t.parquet").x, one.dataset.x)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n1\n", "t.csv, line 3: 1 cells, but the first line names 2 columns"),
        ('a,b\n1,2\n"1,2\n', "t.csv, line 3: unexpected end of data"),
        ('a,b\n1,"2"3\n', "t.csv, line 2: ',' expected after '\"'"),
        ("a,a\n1,2\n", "line 1: two columns are called 'a'"),
        ("a,\n1,2\n", "line 1: column 2 has no name"),
        ("a,b\n", "has a header and no rows"),
        ("a,b\n,\nNA,nan\n", "has a header and no rows with values"),
        ("\n\n", "holds no table"),
        ("a,b\n1,\n2,\n", r"column 'b' has no values: leave it out (drop='b' in Python, --drop b on the command"),
        ("a\n1\n1\n", "each column has one value only"),
        ("a,b\n" + "".join(f"{i},{i % 2}\n" for i in range(50)), "the 50 values of column 'a' are all different"),
        ("a,b\n" + "".join(f"{i // 2},1\n" for i in range(2100)), "line 2002: column 'a' has more than 1000 different"),
        ("a,b\n1," + 200_000 * "x" + "\n", "line 2: field larger than field limit"),
    ],
)
def test_what_is_wrong_and_where(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is looked at below)
        open_data(tmp_path / "t.csv")
    assert told in str(error.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n1,\xff\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 3: byte 0xff is not UTF-8: save the table as UTF-8"):
        open_data(tmp_path / "t.csv")


def test_a_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n\r\n")
    form = open_data(tmp_path / "t.csv").form
    assert isinstance(form, TableFormat)
    assert form.columns == ("a", "b")
    assert form.categories == (("1", "2"), ("x", "y"))


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(ValueError, match=r"t\.parquet is damaged, or no parquet file"):
        open_data(tmp_path / "t.parquet")
    pq.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "u.parquet")
    with pytest.raises(ValueError, match="column 'a' has lists or records"):
        open_data(tmp_path / "u.parquet")


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "1\n2\n" * 100)
    pq.write_table(pa.table({"a": ["1", "2"] * 1000}), tmp_path / "t.parquet")
    monkeypatch.setattr(limits, "FILE_BYTES", 300)
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(ValueError, match="bytes, more than 300"):
            open_data(tmp_path / name)
    monkeypatch.setattr(limits, "FILE_BYTES", 10_000)
    monkeypatch.setattr(limits, "VALUES", 100)
    with pytest.raises(ValueError, match="more than 100 cells"):
        open_data(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="has 2,000 rows"):
        open_data(tmp_path / "t.parquet")


def test_any_table_comes_back(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    names = ["", "a,b", "ü", '"', "\n", "\r", "0", "-1", " x", "x "]
    for case in range(50):
        held = [["v" + names[i] for i in draw.permutation(10)[: draw.integers(2, 10)]] for _ in range(3)]
        form = TableFormat(("p", "q", "r"), tuple(tuple(sorted(v)) for v in held), False)
        x = torch.stack([torch.from_numpy(draw.integers(0, len(v), 20)) for v in held], dim=1)
        (path,) = form.write(x, tmp_path / str(case))
        assert torch.equal(form.read(path).x.long(), x)
