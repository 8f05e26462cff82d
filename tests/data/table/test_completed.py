"""Completed rows: one rule for text files, parquet files and frames; given cells and their formats do not change."""

import io
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from tauleap.data import open_data
from tauleap.data.memory import Kind, read, restore_completed
from tauleap.data.table.format import TableFormat
from tauleap.data.table.frame import open_frame

ROWS = 120
OTHER = "extra,day,price,town,flag,when,note\n"
LINES = (
    "1,2024-03-05,1.50,Ulm,yes,2024-01-01T10:00+02:00,a b\n"
    "2,,x12,Bonn,,2024-01-02T10:00+02:00,\n"
    "3,2024-03-07,,,no,,c\n"
    "4,2024-03-08,?,Ulm,no,2024-01-03T10:00+02:00,d\n"
)


@pytest.fixture
def form(tmp_path: Path) -> TableFormat:
    """The format of a file with decimal commas, German dates and times in UTC."""
    draw = np.random.default_rng(0)
    lines = [
        ";".join(
            (
                f"{1 + i % 28:02d}.03.2024",
                f"{draw.normal(100, 30):.2f}".replace(".", ","),
                ("Köln", "Ulm")[i % 2],
                ("yes", "no")[i % 2],
                f"2024-01-{1 + i % 28:02d}T{i % 24:02d}:00Z",
                f"words {i} of a text",
            )
        )
        for i in range(ROWS)
    ]
    (tmp_path / "train.csv").write_text("\n".join(["day;price;town;flag;when;note", *lines]) + "\n")
    found = open_data(tmp_path / "train.csv").form
    assert isinstance(found, TableFormat)
    assert found.site_names == ("day", "price", "town", "flag", "when")
    return found


def completed(
    form: TableFormat, path: Path, folder: Path, observed: object = None
) -> tuple[list[list[str]], pandas.DataFrame]:
    """Return the completed file as the command line writes it and the frame that Python returns, both of state 1."""
    data, _ = form.read_with_report(path)
    x = torch.ones(len(data), *form.shape, dtype=torch.int64)
    every = torch.ones(len(data), *form.shape, dtype=torch.bool)
    (written,) = form.write_completed(x, every, data, folder, seed=3)
    again = read(path, form=form, num_states=form.num_states)
    frame = restore_completed(x, again, observed, form=form, kind=Kind("frame"), seed=3)
    return [line.split(",") for line in written.read_text().splitlines()], frame


@pytest.mark.filterwarnings("ignore:line 3")
def test_python_and_the_command_line_complete_a_file_alike(form: TableFormat, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(OTHER + LINES)
    rows, frame = completed(form, tmp_path / "other.csv", tmp_path / "out")
    names = OTHER.strip().split(",")
    assert rows[0] == list(frame.columns) == names
    # Columns and cells that the model does not know stay as they are.
    assert [row[0] for row in rows[1:]] == ["1", "2", "3", "4"]
    assert frame["extra"].tolist() == [1, 2, 3, 4]
    assert [row[6] for row in rows[1:]] == ["a b", "", "c", "d"]
    assert frame["note"].tolist()[::2] == ["a b", "c"]
    assert rows[2][2] == frame["price"][1] == "x12"
    assert rows[2][3] == frame["town"][1] == "Bonn"
    # The other way round, all that is empty is drawn, and both say the same.
    assert rows[3][3] == frame["town"][2] == "Ulm"
    assert rows[2][4] == "yes"
    assert frame["flag"].tolist() == [True, True, False, False]
    assert frame["day"].dt.strftime("%Y-%m-%d").tolist() == [row[1] for row in rows[1:]]
    assert frame["price"].tolist() == [row[2] for row in rows[1:]]  # texts, since one of them is not a number
    moments = pandas.to_datetime(frame["when"], utc=True)
    assert moments.equals(pandas.to_datetime([row[5] for row in rows[1:]], utc=True).to_series(index=moments.index))


@pytest.mark.filterwarnings("ignore:line 3", "ignore:column")
def test_a_completed_column_has_one_format(form: TableFormat, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(OTHER + LINES)
    rows, _ = completed(form, tmp_path / "other.csv", tmp_path / "out")
    for row in rows[1:]:
        pandas.to_datetime(row[1], format="%Y-%m-%d")
        assert row[2] == "x12" or row[2].partition(".")[2].isdigit()
        assert row[5].endswith("+02:00")
    frame = pandas.read_csv(io.StringIO(OTHER + LINES), dtype=str)
    data = read(frame, form=form, num_states=form.num_states)
    made = form.completed(
        torch.ones(4, *form.shape, dtype=torch.int64), torch.ones(4, 5, dtype=torch.bool), data.source
    )
    assert made["day"].tolist() == [row[1] for row in rows[1:]]
    assert made["when"].str.endswith("+02:00").all()


def test_numbers_of_a_file_are_numbers_of_a_frame(form: TableFormat, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("price;town;day;flag;when;id\n1,25;Ulm;;;;7\n;Köln;;;;8\n?;Ulm;;;;9\n")
    rows, frame = completed(form, tmp_path / "other.csv", tmp_path / "out")
    assert frame["price"].dtype == np.float64
    assert frame["price"][0] == 1.25
    assert frame["price"].notna().all()
    assert frame["flag"].dtype == bool
    assert frame["id"].tolist() == [7, 8, 9]
    assert frame["day"].dtype.kind == "M"
    assert str(frame["when"].dt.tz) == "UTC"
    assert len(rows) == 4


@pytest.mark.filterwarnings("ignore:line 3")
def test_cells_that_cannot_be_read_are_not_counted_as_filled(form: TableFormat, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text(OTHER + LINES)
    data = form.read(tmp_path / "other.csv")
    every = torch.ones(4, 5, dtype=torch.bool)
    assert int((~data.known()).sum()) == 8
    assert int(form.filled(data, every).sum()) == 6
    assert form.filled(data, every & False).all()


@pytest.mark.parametrize("trained", [[b"x", b"\xff", b"z"], ["x", "y", "z"]])
def test_a_column_of_bytes_is_completed_with_bytes(trained: list[object]) -> None:
    form = open_frame(pandas.DataFrame({"a": trained * 20, "b": [1, 2, 3] * 20})).form
    frame = pandas.DataFrame({"a": [None, b"x", b"z"], "b": [1, 2, 3]})
    again = read(frame, form=form, num_states=form.num_states)
    x = torch.zeros(3, 2, dtype=torch.int64)
    made = restore_completed(x, again, None, form=form, kind=Kind("frame"), seed=3)
    assert [type(value) for value in made["a"]] == [bytes] * 3
    assert made["a"].tolist()[1:] == [b"x", b"z"]
