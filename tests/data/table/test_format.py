"""Tables: names, types and formats of their columns, missing cells, and where problems are reported."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tauleap.data import format_from_config, limits, open_data
from tauleap.data.table.arguments import check_arguments
from tauleap.data.table.columns import CategoryEncoder, Column, DateEncoder, NumberEncoder, TableEncoder
from tauleap.data.table.format import TableFormat
from tauleap.data.table.frame import open_frame

TEXT = 'name,level,"a ""quoted"", one"\nb,10,é\na,9,"x\ny"\n,10,\na,NA,é\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(TEXT, encoding="utf-8")
    return tmp_path / "t.csv"


def opened_form(path: Path, **options: object) -> TableFormat:
    form = open_data(path, **options).form  # pyright: ignore[reportArgumentType]
    assert isinstance(form, TableFormat)
    return form


def test_columns_keep_their_names_and_values(table: Path, tmp_path: Path) -> None:
    opened = open_data(table, header=True)
    form = opened.form
    assert isinstance(form, TableFormat)
    assert form.site_names == ("name", "level", 'a "quoted", one')
    assert [column.encoder.type for column in form.encoder.columns] == ["category", "number", "category"]
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


def test_the_report_has_types_reasons_and_the_override(table: Path) -> None:
    report = open_data(table, header=True).report
    assert report[0] == "t.csv: 4 rows; 3 of 3 columns are modelled"
    assert report[1].split() == ["column", "type", "states", "reason"]
    assert report[3].split(maxsplit=3) == ["level", "number", "2", "whole numbers, 2 distinct"]
    assert report[5] == "change a type: --type level=category; in Python types={'level': 'category'}"
    assert report[6] == "3 of 12 cells are missing"


def test_a_very_wide_table_has_a_short_report(tmp_path: Path) -> None:
    lines = [",".join(f"c{i}" for i in range(1000)), *(",".join(str((i * j) % 3) for i in range(1000)) for j in (1, 2))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    opened = open_data(tmp_path / "t.csv")
    assert len(opened.report) < 110
    assert any(line.startswith("and 900 more columns: ") for line in opened.report)


def test_reading_back_by_name_in_any_order(table: Path, tmp_path: Path) -> None:
    form = opened_form(table, header=True)
    (tmp_path / "u.csv").write_text('level;more;"a ""quoted"", one";name\n9;1;é;b\n10;2;;\n', encoding="utf-8")
    read = form.read(tmp_path / "u.csv")
    assert read.x.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert read.missing is not None
    assert read.missing.long().tolist() == [[0, 0, 0], [1, 0, 1]]
    (tmp_path / "v.csv").write_text('level,name,"a ""quoted"", one"\n10,b,\nx,bb,\n')
    read, problems = form.read_with_report(tmp_path / "v.csv")
    # The file is used, and all of its problems are reported.
    assert read.missing is not None
    assert read.missing[1].tolist() == [True, True, True]
    assert [problem.partition(" is ")[0] for problem in problems] == [
        "line 3, column 'name': 'bb'",
        "line 3, column 'level': 'x'",
    ]
    (tmp_path / "w.csv").write_text("more\n10\n")
    with pytest.raises(ValueError, match="the column does not exist") as error:
        form.read(tmp_path / "w.csv")
    assert str(error.value).count("the column does not exist") == 3
    assert str(tmp_path / "w.csv") in str(error.value)


def test_columns_of_different_sizes(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n" + "".join(f"{i % 3}\t{i % 2}\n" for i in range(12)))
    opened = open_data(tmp_path / "t.tsv")
    assert opened.form.sizes is not None
    assert opened.form.sizes.tolist() == [3, 2]
    assert opened.form.num_states == 3
    assert opened.dataset.sizes is not None
    assert torch.equal(opened.dataset.sizes, opened.form.sizes)
    (path,) = opened.form.write(opened.dataset.x, tmp_path / "out")
    assert path.name == "samples.tsv"
    assert path.read_bytes() == (tmp_path / "t.tsv").read_bytes()


def test_quantities_only_where_all_columns_are(tmp_path: Path) -> None:
    rows = "".join(f"{i % 9},{i % 10 - 4},{'xyz'[i % 3]}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("a,b,c\n" + rows)
    assert not open_data(tmp_path / "t.csv").form.ordinal
    form = opened_form(tmp_path / "t.csv", drop="c")
    assert form.ordinal
    assert form.encoder.sizes == (9, 10)


def test_parquet_has_the_same_states_and_comes_back_as_parquet(table: Path, tmp_path: Path) -> None:
    named = {
        "name": pa.array(["b", "a", None, "a"]).dictionary_encode(),
        "level": pa.array([10, 9, 10, None]),
        'a "quoted", one': ["é", "x\ny", None, "é"],
    }
    pq.write_table(pa.table(named), tmp_path / "t.parquet")
    one, other = open_data(table, header=True), open_data(tmp_path / "t.parquet")
    assert other.dataset.missing is not None
    assert torch.equal(one.dataset.known(), other.dataset.known())
    # A model of the one reads the other; a categorical column keeps the order of its own categories.
    assert torch.equal(one.form.read(tmp_path / "t.parquet").x, one.dataset.x)
    assert torch.equal(other.form.read(table).x, other.dataset.x)
    (path,) = other.form.write(other.dataset.x[:2], tmp_path / "out")
    assert path.name == "samples.parquet"
    back = pandas.read_parquet(path)
    assert back["level"].tolist() == [10, 9]
    assert str(back["level"].dtype) == "Int64"
    assert str(back["name"].dtype) == "category"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        # Once refused, now used: the line is left out or repaired, and reported.
        ("a,b\n1,x\n2,y\n1\n", "line 4: there is 1 cell instead of 2; the line is left out"),
        ('a,b\n1,x\n"1,y\n2,y\n', "line 3"),
        ('a,b\n1,"2"3\n2,4\n', "line 2"),
        ("a,a\n1,x\n2,y\n", "line 1: column 2 has the name of another, 'a', and is called a_2"),
        ("a,\n1,x\n2,y\n", "line 1: column 2 has no name and is called column_2"),
        ("a,b\n1,\n2,\n", "there is no value"),
        ("a,b\n" + "".join(f"{i},{i % 2}\n" for i in range(50)), "consecutive whole numbers from 0 to 49; excluded"),
        ("a,b\n" + "".join(f"{i // 2},1\n" for i in range(2100)), "whole numbers, 1,050 distinct"),
        ("a,b\n" + "".join(f"x{i // 2},1\n" for i in range(2100)), "the others are written as (other)"),
        ("a,b\n1,2\n,\n2,3\n", "line 3: the row has no value and is left out"),
    ],
)
def test_a_usable_file_is_used_and_reported(text: str, reported: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    opened = open_data(tmp_path / "t.csv", header=True)
    assert any(reported in line for line in opened.report), opened.report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "there are no rows"),
        ("a,b\n,\nNA,nan\n", "there are no rows"),
        ("\n\n", "there are no rows"),
        ("a\n1\n1\n", "no column has anything to learn"),
    ],
)
def test_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        open_data(tmp_path / "t.csv", header=True)
    assert str(tmp_path / "t.csv") in str(error.value)


def test_all_wrong_overrides_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    types = {"q": "number", "a": "float", "b": "number"}
    with pytest.raises(ValueError, match="cannot be used") as error:
        open_data(tmp_path / "t.csv", types=types, drop="z")
    lines = str(error.value).splitlines()
    assert len(lines) == 5
    for words in (
        "there is no column 'z'",
        "there is no column 'q'",
        "got 'float'",
        "column 'b': has no number; its first values are 'x', 'y'",
    ):
        assert any(words in line for line in lines)


def test_wrong_options_of_every_kind_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,x,u\n2,y,v\n")
    options = {"delimiter": "x", "decimal": "-", "encoding": "klingon", "bins": 1, "drop": ["z", "c"]}
    with pytest.raises(ValueError, match="cannot be used") as error:
        open_data(tmp_path / "t.csv", types={"q": "number", "b": "number", "c": "category"}, **options)  # pyright: ignore[reportArgumentType]
    lines = str(error.value).splitlines()
    assert len(lines) == 9
    for words in (
        "delimiter must be one of",
        "decimal must be '.' or ','",
        "encoding must be one of",
        "bins must be 2..10,000, got 1; write --bins 100",
        "there is no column 'z' to leave out; write one of a, b",
        "there is no column 'q' to give a type; write one of the columns a, b",
        "column 'b': has no number; its first values are 'x', 'y'",
        "column 'c' is given a type and is also left out; remove c from --type (types=) or from --drop (drop=)",
    ):
        assert sum(words in line for line in lines) == 1, words
    with pytest.raises(ValueError, match="does not take the options length, states"):
        open_data(tmp_path / "t.csv", length=3, states=4)


def test_latin_1_is_read_and_written_again(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a;b\n1,5;Köln\n2,5;Ulm\n".encode("latin-1"))
    opened = open_data(tmp_path / "t.csv")
    assert any("is not UTF-8, so the file was read as cp1252" in line for line in opened.report)
    (path,) = opened.form.write(opened.dataset.x, tmp_path / "out")
    assert path.read_bytes() == (tmp_path / "t.csv").read_bytes()


def test_a_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n\r\n")
    opened = open_data(tmp_path / "t.csv")
    assert opened.form.site_names == ("a", "b")
    (path,) = opened.form.write(opened.dataset.x, tmp_path / "out")
    assert path.read_bytes() == b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n"
    assert "\r" not in opened.form.preview(opened.dataset.x, 2)


@pytest.mark.parametrize("name", ["iris.data", "iris", "iris.CSV"])
def test_other_names_of_delimited_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("".join(f"{i % 7}.{i % 3};{'ab'[i % 2]}\n" for i in range(40)))
    opened = open_data(tmp_path / name)
    assert opened.form.site_names == ("column_1", "column_2")
    assert len(opened.dataset) == 40
    (path,) = opened.form.write(opened.dataset.x, tmp_path / "out")
    assert path.name == ("samples.data" if name.endswith(".data") else "samples.csv")
    assert path.read_bytes() == (tmp_path / name).read_bytes()
    assert torch.equal(opened.form.read(path).x, opened.dataset.x)


def test_row_labels_of_a_parquet_file_are_no_column_and_stay(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3] * 20, "b": ["x", "y"] * 30})
    frame.index = pandas.MultiIndex.from_arrays([[f"r{i}" for i in range(60)], range(60)])
    frame.to_parquet(tmp_path / "t.parquet")
    opened = open_data(tmp_path / "t.parquet")
    assert opened.form.site_names == ("a", "b")
    (path,) = opened.form.write(opened.dataset.x, tmp_path / "new")
    assert list(pandas.read_parquet(path).columns) == ["a", "b"]
    every = torch.ones(60, 2, dtype=torch.bool)
    (path,) = opened.form.write_completed(opened.dataset.x, every, opened.dataset, tmp_path / "completed")
    assert pandas.read_parquet(path).equals(frame)


def test_columns_that_parquet_files_cannot_hold_become_texts(tmp_path: Path) -> None:
    months = pandas.period_range("2024-01", periods=3, freq="M")
    frame = pandas.DataFrame(
        {
            "interval": pandas.cut(np.arange(60), 3),
            "month": pandas.Categorical(list(months) * 20),
            "several": pandas.Series([1, "x", 2.5] * 20, dtype=object),
            "plain": [1, 2, 3] * 20,
        }
    )
    opened = open_frame(frame)
    (path,) = replace(opened.form, suffix=".parquet").write(opened.dataset.x, tmp_path)  # pyright: ignore
    back = pandas.read_parquet(path)
    assert back["plain"].dtype == "int64"
    assert back["interval"].tolist() == frame["interval"].astype(str).tolist()
    assert back["month"].tolist() == frame["month"].astype(str).tolist()
    assert back["several"].tolist() == ["1", "x", "2.5"] * 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": ["name=category"]}, r"types must be types by column name, such as .*, got \['name=category'\]"),
        ({"bins": 2.5}, "bins must be a whole number of 2..10,000, got 2.5"),
        ({"bins": "many"}, "bins must be a whole number of 2..10,000, got 'many'"),
        ({"header": "no"}, "header must be True, False or None"),
    ],
)
def test_arguments_of_a_wrong_type(options: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_arguments(**options)


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(ValueError, match=r"t\.parquet is damaged, or no parquet file"):
        open_data(tmp_path / "t.parquet")
    pq.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "u.parquet")
    with pytest.raises(ValueError, match=r"u\.parquet cannot be used: .* the cells have lists or other objects"):
        open_data(tmp_path / "u.parquet")
    pq.write_table(pa.table({"a": [[1], [2]], "b": [b"x", b"y"]}), tmp_path / "v.parquet")
    assert open_data(tmp_path / "v.parquet").form.site_names == ("b",)
    with pytest.raises(ValueError, match=r"header is for delimited text, and .*v\.parquet stores types"):
        open_data(tmp_path / "v.parquet", header=True)


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
    with pytest.raises(ValueError, match="at most 100 cells and 10,000 bytes, got 2,000 cells"):
        open_data(tmp_path / "t.parquet")


def test_any_table_comes_back(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    names = ["", "a,b", "ü", '"', "\n", "\r", "0", "-1", " x", "x "]
    for case in range(50):
        held = [["v" + names[i] for i in draw.permutation(10)[: draw.integers(2, 10)]] for _ in range(3)]
        encoders = [CategoryEncoder(tuple(sorted(texts))) for texts in held]
        columns = [Column(name, encoder) for name, encoder in zip("pqr", encoders, strict=True)]
        form = TableFormat(TableEncoder(tuple(columns)))
        x = torch.stack([torch.from_numpy(draw.integers(0, len(texts), 20)) for texts in held], dim=1)
        (path,) = form.write(x, tmp_path / str(case))
        assert torch.equal(form.read(path).x.long(), x)


def test_values_inside_bins_follow_the_seed_and_the_preview_is_the_file(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    lines = [
        f"{value:.3f},{key}" for value, key in zip(draw.normal(size=3000), draw.choice(["u", "v"], 3000), strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["size,key", *lines]) + "\n")
    opened = open_data(tmp_path / "t.csv", bins=10)
    form, x = opened.form, opened.dataset.x
    files = [form.write(x, tmp_path / str(i), seed=seed)[0].read_text() for i, seed in enumerate((1, 1, 2))]
    assert files[0] == files[1] != files[2]
    assert files[0].splitlines()[:4] == form.preview(x, 3, seed=1).splitlines()
    assert torch.equal(form.read(tmp_path / "0" / "samples.csv").x, x)
    density = form.log_density(opened.dataset)
    assert density is not None
    assert density.shape == x.shape
    assert (density[:, 0] < 0).all()
    assert (density[:, 1] == 0).all()


def test_a_table_of_an_earlier_version(tmp_path: Path) -> None:
    old = {"kind": "table", "columns": ["a", "b"], "categories": [["x"], ["2", "10"]], "ordered": False}
    form = format_from_config(old)
    assert isinstance(form, TableFormat)
    assert form.shape == (2,)
    assert form.encoder.sizes == (1, 2)  # a column of one category was a site
    (path,) = form.write(torch.tensor([[0, 1], [0, 0]]), tmp_path)
    assert path.read_text() == "a,b\nx,10\nx,2\n"
    assert form.read(path).x.tolist() == [[0, 1], [0, 0]]
    assert format_from_config(form.config()) == form
    frame = form.with_frame_types(("text", "int"), ("text", "text")).frame(torch.tensor([[0, 1], [0, 0]]))
    assert frame["b"].tolist() == [10, 2]
    assert frame["b"].dtype == np.int64
    for wrong in ({"columns": "ab"}, {"categories": [["x"]]}, {"ordered": 1}, {"categories": [["x", "x"], ["1", "2"]]}):
        with pytest.raises(ValueError, match=r"table|column|categor|ordered"):
            format_from_config(old | wrong)


@pytest.mark.parametrize(("least", "type_"), [(2**63 + 5, "number"), (10**24, "category")])
def test_whole_numbers_beyond_int64_stay_apart(least: int, type_: str, tmp_path: Path) -> None:
    values = [str(least + 3 * (i * i % 40)) for i in range(300)]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{value},{i % 3}\n" for i, value in enumerate(values)))
    opened = open_data(tmp_path / "t.csv")
    assert isinstance(opened.form, TableFormat)
    assert opened.form.encoder.columns[0].encoder.type == type_
    [path] = opened.form.write(opened.dataset.x, tmp_path / "out")
    assert [line.split(",")[0] for line in path.read_text().splitlines()[1:]] == values


def test_refitted_bins_follow_from_the_given_rows_alone(tmp_path: Path) -> None:
    days = np.datetime64("2024-01-01") + np.arange(400)
    lines = [f"{i / 4},{day},{'ab'[i % 2]}\n" for i, day in enumerate(days)]
    (tmp_path / "t.csv").write_text("number,day,word\n" + "".join(lines))
    opened = open_data(tmp_path / "t.csv", bins=20, types={"number": "number", "day": "date"})
    first = opened.dataset.select(torch.arange(100))
    form = opened.form.refit(first)
    assert isinstance(form, TableFormat)
    assert isinstance(opened.form, TableFormat)
    number, day, word = (column.encoder for column in form.encoder.columns)
    before = opened.form.encoder.columns
    assert isinstance(number, NumberEncoder)
    assert isinstance(day, DateEncoder)
    assert sum(map(sum, number.weights)) == sum(map(sum, day.numbers.weights)) == 100
    assert number.decimals == 2
    assert number.knots[-1][-1] <= 99 / 4
    assert word == before[2].encoder
    again = form.encode_again(opened.dataset)
    assert again.num_states == form.num_states
    assert again.x[-1, 0] == number.num_states - 1


def test_refitting_on_missing_values_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i / 4 if i >= 20 else ''},{i % 3}\n" for i in range(200)))
    opened = open_data(tmp_path / "t.csv", types={"a": "number"})
    assert isinstance(opened.form, TableFormat)
    assert (
        opened.form.refit(opened.dataset.select(torch.arange(20))).encoder.columns[0] == opened.form.encoder.columns[0]
    )


def test_frequent_categories_follow_from_the_given_rows_alone(tmp_path: Path) -> None:
    words = [f"w{i % 1500:04d}" for i in range(3000)] + ["late"] * 50
    (tmp_path / "t.csv").write_text("word,n\n" + "".join(f"{word},{i % 3}\n" for i, word in enumerate(words)))
    opened = open_data(tmp_path / "t.csv")
    assert isinstance(opened.form, TableFormat)
    before = opened.form.encoder.columns[0].encoder
    form = opened.form.refit(opened.dataset.select(torch.arange(3000)))
    assert isinstance(form, TableFormat)
    after = form.encoder.columns[0].encoder
    assert isinstance(before, CategoryEncoder)
    assert isinstance(after, CategoryEncoder)
    assert "late" in before.categories
    assert "late" not in after.categories
    assert after.num_states == before.num_states == 1000
    few = opened.form.refit(opened.dataset.select(torch.arange(100))).encoder.columns[0].encoder  # pyright: ignore[reportAttributeAccessIssue]
    assert (len(few.categories), few.other) == (100, "(other)")  # other rows have other words
    again = form.encode_again(opened.dataset)
    assert (again.x[3000:, 0] == 999).all()


@pytest.mark.parametrize("head", ["a,a,b,a", ",a,b,c", "a,,,b", "a,a,a_2,b"])
def test_names_of_the_file_come_back_even_if_they_repeat(head: str, tmp_path: Path) -> None:
    text = head + "\n" + "".join(f"{i % 3},x{i % 2},{i % 5},y{i % 4}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(text)
    opened = open_data(tmp_path / "t.csv")
    assert isinstance(opened.form, TableFormat)
    form = format_from_config(opened.form.config())
    (path,) = form.write(opened.dataset.x, tmp_path / "out")
    assert path.read_text() == text
    every = torch.ones(40, 4, dtype=torch.bool)
    (path,) = form.write_completed(opened.dataset.x, every, form.read(path), tmp_path / "done")
    assert path.read_text() == text


def test_markers_that_no_cell_has_are_reported(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i % 3},{'xy'[i % 2]}\n" for i in range(40)))
    report = open_data(tmp_path / "t.csv", missing=["-99", "x"]).report
    assert "no cell is '-99': check the spelling of --missing (missing=)" in report


def test_previews_fit_a_terminal(tmp_path: Path) -> None:
    names = ",".join(f"c{i}" for i in range(1000))
    row = ",".join(str(i % 3) for i in range(999))
    (tmp_path / "t.csv").write_text("\n".join([names, f"{row},{'u' * 200}", f"{row},{'v' * 200}"]) + "\n")
    opened = open_data(tmp_path / "t.csv", types={"c0": "category"}, drop="c1")
    shown = opened.form.preview(opened.dataset.x, 5)
    assert shown.splitlines()[0].endswith("c29,c30,... 969 more columns")
    assert max(map(len, shown.splitlines())) < 200
    narrow = opened_form(tmp_path / "t.csv", drop=[f"c{i}" for i in range(998)])
    assert "u" * 57 + "..." in narrow.preview(opened.dataset.x[:, :1], 5)


def test_previews_have_one_line_per_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"a\nb",c\n"x\ny",1\n"p\tq",2\n"x\ny",1\n')
    opened = open_data(tmp_path / "t.csv", types={"c": "category"})
    assert opened.form.preview(opened.dataset.x, 3).splitlines() == ["a\\nb,c", "x\\ny,1", "p\\tq,2", "x\\ny,1"]


def test_a_first_line_that_is_taken_as_values_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.data").write_text("31,m\n42,f\n31,m\n")
    note = "the first line has values such as '31': no names of columns; write --header (header=True in Python) if it"
    assert any(line.startswith(note) for line in open_data(tmp_path / "a.data").report)
    assert not any(line.startswith(note) for line in open_data(tmp_path / "a.data", header=False).report)
    (tmp_path / "b.csv").write_text("age,sex\n31,m\n42,f\n31,m\n")
    assert not any("no names" in line for line in open_data(tmp_path / "b.csv").report)
