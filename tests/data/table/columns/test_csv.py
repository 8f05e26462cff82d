"""Delimited text: header, delimiter, decimals, quotes, encodings, missing values, and every problem at once."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tauleap.data import limits
from tauleap.data.table.columns import RawTable, TableEncoder, TableError
from tauleap.data.table.csv import read_delimited, write_delimited


def read(folder: Path, content: str | bytes, name: str = "a.csv", **options: object) -> RawTable:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_delimited(path, **options)  # pyright: ignore[reportArgumentType]


def cells(raw: RawTable) -> dict[str, list[str | None]]:
    return {
        name: [None if code < 0 else column.values[code] for code in column.codes.tolist()]
        for name, column in raw.columns.items()
    }


@pytest.mark.parametrize("name", ["a.csv", "a.data", "a", "a.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", ", ", "   "])
def test_delimiters(tmp_path: Path, delimiter: str, name: str) -> None:
    text = "\n".join(delimiter.join(row) for row in (["a", "b", "c"], ["1", "2.5", "x"], ["3", "4.5", "y"])) + "\n"
    raw = read(tmp_path, text, name)
    assert cells(raw) == {"a": ["1", "3"], "b": ["2.5", "4.5"], "c": ["x", "y"]}
    assert raw.problems == ()


def test_decimal_commas(tmp_path: Path) -> None:
    raw = read(tmp_path, "a;b;day\n1,5;1.234,50;1/2/2024\n-2,25;12,00;3/4/2024\n")
    assert (raw.decimal, raw.dialect.delimiter) == (",", ";")  # pyright: ignore[reportOptionalMemberAccess]
    encoder = TableEncoder.fit(raw)
    values = encoder.decode(encoder.encode(raw).states).values
    assert values[0].tolist() == [1.5, -2.25]
    assert values[1].tolist() == [1234.5, 12]
    assert [str(day) for day in values[2]] == ["2024-02-01", "2024-04-03"]
    assert cells(read(tmp_path, "1,5;2,5\n3,5;4,5\n"))["column_1"] == ["1,5", "3,5"]


def test_thousands(tmp_path: Path) -> None:
    raw = read(tmp_path, 'a,b\n"1,234",x\n"12,345,678",y\n')
    encoder = TableEncoder.fit(raw)
    assert encoder.decode(encoder.encode(raw).states).values[0].tolist() == [1234, 12345678]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("age,sex\n31,m\n42,f\n", ["age", "sex"]),
        ("31,m\n42,f\n31,m\n", ["column_1", "column_2"]),
        (
            "39, State-gov, 77516, ?\n50, Private, 83311, ?\n38, Private, 215646, x\n",
            [f"column_{i}" for i in (1, 2, 3, 4)],
        ),
        ("name,city\nAda,Rome\nAlan,Oslo\n", ["name", "city"]),
        ("0,1,2\n5,6,1\n7,8,4\n", ["0", "1", "2"]),
        ("country,2019,2020\nA,1.5,2\nB,2.5,3\n", ["country", "2019", "2020"]),
        ("a,a,\n1,2,3\n", ["a", "a_2", "column_3"]),
        ("x y\n1 2\n", ["x", "y"]),
        ("a,b\nr1,1,2\nr2,3,4\n", ["column_1", "a", "b"]),
        ("a,b\n1,2,\n3,4,\n", ["a", "b"]),
        ("5.1,3.5,Iris-setosa\n4.9,3.0,Iris-setosa\n7.0,3.2,Iris-versicolor\n", [f"column_{i}" for i in (1, 2, 3)]),
    ],
)
def test_headers(tmp_path: Path, text: str, names: list[str]) -> None:
    assert list(read(tmp_path, text).columns) == names


def test_headers_that_are_given(tmp_path: Path) -> None:
    assert list(read(tmp_path, "1,2\n3,4\n", header=True).columns) == ["1", "2"]
    raw = read(tmp_path, "a,b\nc,d\n", header=False)
    assert cells(raw) == {"column_1": ["a", "c"], "column_2": ["b", "d"]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str, line_end: str) -> None:
    text = line_end.join(["name,größe", "Zoë,1", "Łukasz,2" if encoding.startswith("utf") else "Åsa,2", ""])
    raw = read(tmp_path, text.encode(encoding))
    assert list(raw.columns) == ["name", "größe"]
    assert cells(raw)["name"][0] == "Zoë"
    assert len(raw.problems) == (encoding in ("cp1252", "latin-1"))
    encoder = TableEncoder.fit(raw)
    out = tmp_path / "out.csv"
    with out.open("w", encoding=encoder.dialect.encoding, newline="") as file:
        write_delimited(encoder.decode(encoder.encode(raw).states), file)
    assert out.read_bytes() == text.encode(encoding)


def test_encodings_that_are_given(tmp_path: Path) -> None:
    assert cells(read(tmp_path, "a,b\n\xe9,1\n".encode("latin-1"), encoding="ISO-8859-1"))["a"] == ["é"]
    with pytest.raises(TableError, match="line 2: the byte 0xe9 is not utf-8"):
        read(tmp_path, "a,b\n\xe9,1\n".encode("latin-1"), encoding="utf8")
    with pytest.raises(ValueError, match="encoding must be one of"):
        read(tmp_path, "a", encoding="ebcdic")


def test_missing_values(tmp_path: Path) -> None:
    text = "n,c,d\n1,a,2024-01-01\n?,?,-\nNA,NA,\n2,b,2024-01-02\n"
    raw = read(tmp_path, text)
    encoder = TableEncoder.fit(raw)
    assert [column.encoder.type for column in encoder.columns] == ["number", "category", "date"]
    assert encoder.encode(raw).missing.tolist() == [[False] * 3, [True, False, True], [True] * 3, [False] * 3]
    given_ = read(tmp_path, text, missing=["?", "-"])
    assert cells(given_)["n"] == ["1", None, "NA", "2"]
    assert cells(given_)["c"] == ["a", None, "NA", "b"]
    assert cells(read(tmp_path, "n\n1\n\n2\n"))["n"] == ["1", None, "2"]


def test_quotes(tmp_path: Path) -> None:
    raw = read(tmp_path, 'a,b\n"x, y",1\n"two\nlines",2\n"say ""hi""",3\n5" pipe,4\n')
    assert cells(raw)["a"] == ["x, y", "two\nlines", 'say "hi"', '5" pipe']
    assert raw.lines is not None
    assert raw.lines.tolist() == [2, 3, 5, 6]


def test_all_problems_are_reported_and_the_file_is_used(tmp_path: Path) -> None:
    rows = [f"{i % 60},{'xy'[i % 2]}" for i in range(200)]
    rows[10], rows[20], rows[30], rows[40] = '"open,x', "1,x,extra", "lonely", '"a"b,y'
    rows[50] = "12o,x"
    raw = read(tmp_path, "\n".join(["n,c", *rows, ""]))
    assert raw.num_rows == 198
    assert [problem.line for problem in raw.problems] == [12, 22, 32, 42]
    assert "a quote is not closed; the line is read without quotes" in str(raw.problems[0])
    assert "3 cells instead of 2; the line is left out" in str(raw.problems[1])
    encoder = TableEncoder.fit(raw)
    encoded = encoder.encode(raw)
    assert {problem.line for problem in encoded.problems} == {12, 42, 52}
    assert all(problem.column == "n" and problem.remedy for problem in encoded.problems)


def test_lines_before_the_table_are_left_out(tmp_path: Path) -> None:
    raw = read(tmp_path, "|1x3 Cross validator\n25, Private, 226802\n38, Private, 89814\n28, Local-gov, 336951\n")
    assert raw.num_rows == 3
    assert raw.problems[0].line == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n\n", "no rows"),
        (b"a,b\n", "no rows"),
        (b"PK\x03\x04abc", "spreadsheet"),
        (b"PAR1abc", r"\.parquet"),
        (b"a,b\n1,\0\n", "line 2: a zero byte"),
        (b"\xff\xfea\0b", "UTF-16"),
        (b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n{"a": 1, "b": "x"}\n', "it is JSON, not delimited text"),
        (b'\xef\xbb\xbf[\n  {"a": 1},\n  {"a": 2}\n]\n', "it is JSON, not delimited text"),
        (b"<!DOCTYPE html>\n<html><td>1</td>,<td>2</td></html>\n", "it is HTML or XML, not delimited text"),
        (b"a,b,c\n1,2,3\n1,2,3\n" + b"1\n1,2\n1,2,3,4\n" * 90, "most lines do not have the same number of cells"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableEncoder.fit(read(tmp_path, content))


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableError, match="columns, more than"):
        read(tmp_path, ",".join(["x"] * 10_001) + "\n" + ",".join(["1"] * 10_001) + "\n")
    monkeypatch.setattr("tauleap.data.table.csv.reader.MOST_DISTINCT", 100)
    with pytest.raises(TableError, match="more than 100 distinct cells"):
        read(tmp_path, "a\n" + "\n".join(map(str, range(200))))
    monkeypatch.setattr("tauleap.data.table.csv.records.LONGEST_LINE", 100)
    with pytest.raises(TableError, match="line 2: the line has more than 100 characters"):
        read(tmp_path, "a,b\n" + "x" * 200 + ",1\n")
    monkeypatch.setattr(limits, "FILE_BYTES", 10)
    with pytest.raises(ValueError, match="more than 10"):
        read(tmp_path, "a,b\n1,2\n3,4\n")


def test_a_quote_that_is_never_closed_is_found_quickly(tmp_path: Path) -> None:
    raw = read(tmp_path, "a,b\n" + '1,"x\n' + "2,y\n" * 20_000)
    assert raw.num_rows == 20_001
    assert raw.problems[0].line == 2


def test_a_thousand_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, row)) for row in rng.integers(0, 5, (50, 1000)).tolist()]
    raw = read(tmp_path, "\n".join([",".join(f"c{i}" for i in range(1000)), *rows]))
    encoder = TableEncoder.fit(raw)
    assert encoder.encode(raw).states.shape == (50, 1000)
    assert TableEncoder.from_config(encoder.config()) == encoder


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=8).map(str.strip)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(1, 4), st.sampled_from([",", ";", "\t", "|"]))
def test_what_is_written_is_read_again(tmp_path: Path, data: st.DataObject, width: int, delimiter: str) -> None:
    rows = data.draw(st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=2, max_size=30))
    quoted = [delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    content = "\n".join([delimiter.join(f"c{i}" for i in range(width)), *quoted, ""])
    raw = read(tmp_path, content, delimiter=delimiter, header=True, missing=[])
    assert [list(row) for row in zip(*cells(raw).values(), strict=True)] == [
        [cell or None for cell in row] for row in rows
    ]
    try:
        encoder = TableEncoder.fit(raw, types={name: "category" for name in raw.columns}, model_missing=True)
    except TableError:
        return
    text = io.StringIO()
    write_delimited(encoder.decode(encoder.encode(raw).states), text)
    again = read(tmp_path, text.getvalue(), delimiter=delimiter, header=True, missing=[])
    assert cells(again) == cells(raw)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300) | st.text('ab01.,;\t"\n\r|- ?é', max_size=300).map(str.encode))
def test_any_bytes_give_a_table_or_one_clear_error(tmp_path: Path, content: bytes) -> None:
    try:
        raw = read(tmp_path, content)
        encoder = TableEncoder.fit(raw)
    except ValueError:
        return
    encoded = encoder.encode(raw)
    decoded = encoder.decode(encoded.states, np.random.default_rng(0))
    write_delimited(decoded, io.StringIO())
    encoder.describe()
    assert np.isfinite(encoder.log_density(raw)).all()


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        ("sep=;\n", 0),
        ("# made by hand\n", 1),
        ("# made by hand; see the notes\n\n# 2024\n", 1),
        ("sep=;\r\n# made; by; hand; in; 2024\r\n", 1),
        ("# made by hand\nsep=;\n", 1),
        ("# made by hand\nsep=;\n# in 2024\n", 1),
        ("# made by hand; in 2024\n", 1),
    ],
)
def test_lines_before_the_table_are_not_its_header(before: str, lines: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(before + "name;height\nAda;165\nAlan;178\nAlan;178\n")
    raw = read_delimited(path)
    assert list(raw.columns) == ["name", "height"]
    assert raw.num_rows == 3
    assert len(raw.problems) == lines
    assert raw.line(0) == before.count("\n") + 2


def test_a_header_that_begins_with_a_number_sign_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("#chrom\tstart\nx\t1\ny\t2\ny\t7\n")
    raw = read_delimited(tmp_path / "t.tsv")
    assert list(raw.columns) == ["#chrom", "start"]
    assert not raw.problems


def test_a_long_cell_is_a_cell(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    page = "line of a page\n" * 30_000
    raw = read(tmp_path, f'a,b\n{"x" * 200_000},1\n"{"y" * 200_000}",2\n"{page}",3\nz,4\n')
    assert [len(cell or "") for cell in cells(raw)["a"]] == [200_000, 200_000, len(page), 1]
    assert raw.problems == ()
    assert csv.field_size_limit() == limit


def test_a_cell_that_is_not_closed_does_not_swallow_rows(tmp_path: Path) -> None:
    rows = [f"v{i},{i % 7}" for i in range(3000)]
    rows[5], rows[2000] = '"open,1', 'close",2'
    raw = read(tmp_path, "\n".join(["a,b", *rows, ""]))
    assert raw.num_rows == 3000
    assert [problem.line for problem in raw.problems] == [7]


def rewritten(folder: Path, content: str) -> str:
    """Return a file after reading, encoding, decoding and writing; its values repeat, so that nothing is lost."""
    raw = read(folder, content)
    assert raw.problems == ()
    encoder = TableEncoder.fit(raw, model_missing=True)
    encoder = TableEncoder.from_config(encoder.config())
    file = io.StringIO(newline="")
    write_delimited(encoder.decode(encoder.encode(raw).states), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("a,b,c", "{0},v{1},{0}.5"),
        ("39, State-gov, 77516", "{0}, v{1}, 5{1}"),
        ('"a";"b";"c"', '{0};"v{1}";{0},5'),
        ("a;b;c", '{0};"v{1}";{0},5'),
        ('"a","b","c"', '"{0}","v{1}","{0}.5"'),
        ('"a","b","c"', '"{0}","v, {1}",""'),
        ("a,'b,c',d", "{0},'v, {1}',{1}"),
        ('"a","b"', '{0},"say \\"{1}\\", or \\\\"'),
        ("a,b", '{0},"say ""{1}"""'),
        ("sep=;\r\na;b", "{0};v{1}"),
    ],
)
def test_quotes_and_spaces_come_back_as_they_were(tmp_path: Path, head: str, row: str) -> None:
    body = [row.format(i % 4 + 3, i % 3) for i in range(40)]
    end = "\r\n" if "\r\n" in head else "\n"
    content = end.join([head, *(body if head[0] != "3" else [body[0], *body]), ""])
    assert rewritten(tmp_path, content) == content


def test_names_with_an_empty_end(tmp_path: Path) -> None:
    raw = read(tmp_path, "a,b,c,\n1,x,2\n3,y,4\n")
    assert list(raw.columns) == ["a", "b", "c"]
    assert raw.num_rows == 2


def test_titles_above_the_names_are_left_out_and_reported(tmp_path: Path) -> None:
    raw = read(tmp_path, "# export\nSales 2024,,\n\n,,\ntown,sold,day\nUlm,7,1\nBonn,9,2\nBonn,9,2\n")
    assert list(raw.columns) == ["town", "sold", "day"]
    assert raw.num_rows == 3
    assert raw.line(0) == 6
    assert [str(problem) for problem in raw.problems] == [
        "line 1: the line begins with # and is a comment; remove the # if the line has the names",
        "line 2: 2 lines are titles above the names of the columns, and left out; no action is needed",
    ]


def test_problems_of_names_have_the_line_of_the_names(tmp_path: Path) -> None:
    raw = read(tmp_path, "\n# export\na,a,\n1,x,2\n3,y,4\n")
    assert [problem.line for problem in raw.problems] == [2, 3, 3]


def test_one_column_of_numbers_with_decimal_commas(tmp_path: Path) -> None:
    assert cells(read(tmp_path, "size\n1,5\n-2,25\n1,5\n")) == {"size": ["1,5", "-2,25", "1,5"]}


def test_dates_without_names(tmp_path: Path) -> None:
    assert list(read(tmp_path, "2024-01-01,x\n2024-01-02,y\n2024-01-03,z\n").columns) == ["column_1", "column_2"]
    assert list(read(tmp_path, "day,who\n2024-01-01,x\n2024-01-02,y\n2024-01-03,z\n").columns) == ["day", "who"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sep=!\na!b\n1!2\n", "line 1: the line announces the delimiter '!', which is not one of"),
        ("a,b\n", r"there are no rows after the names of the columns; add rows, or write --no-header \(header=False"),
        ("a,b,c\n1,2,3\n4,5,6\n1\n1\n1\n", "line 4: there is 1 cell instead of 3; the line is left out"),
    ],
)
def test_remedies(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=message):
        read(tmp_path, content)
