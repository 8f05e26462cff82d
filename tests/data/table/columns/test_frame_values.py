"""Types of frames beyond the usual ones: durations, times, periods, objects, pyarrow, and labels that are no texts."""

import datetime
import decimal
import json
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tauleap.data.table.columns import Cells, RawTable, TableEncoder, from_frame, to_frame
from tauleap.data.table.columns.best import state_labels
from tauleap.data.table.columns.durations import duration_texts, parse_durations


def encoder_of(frame: pd.DataFrame, **options: Any) -> TableEncoder:
    encoder = TableEncoder.fit(from_frame(frame), **options)
    return TableEncoder.from_config(json.loads(json.dumps(encoder.config())))


def decoded(encoder: TableEncoder, frame: pd.DataFrame) -> pd.DataFrame:
    return to_frame(encoder.decode(encoder.encode(from_frame(frame)).states, np.random.default_rng(0)))


@pytest.mark.parametrize("dtype", ["timedelta64[ns]", "timedelta64[s]", "duration[us][pyarrow]"])
def test_durations_are_whole_numbers_of_their_unit(dtype: str) -> None:
    hours = pd.to_timedelta(np.arange(400) * 3, unit="h")
    frame = pd.DataFrame({"wait": pd.Series(hours).astype(dtype)})
    encoder = encoder_of(frame)
    assert TableEncoder.fit(from_frame(frame)).columns[0].reason == "durations, whole hours, 400 distinct"
    made = decoded(encoder, frame)
    assert str(made["wait"].dtype) == dtype
    made = made["wait"].astype("timedelta64[ns]")
    assert (made.astype("int64") % 3_600_000_000_000 == 0).all()
    assert abs(made - hours).max() < pd.Timedelta(hours=60)


def test_durations_are_read_from_files_as_pandas_writes_them() -> None:
    spans = pd.to_timedelta([*range(-4, 56)], unit="h")
    frame = pd.DataFrame({"wait": spans})
    encoder = encoder_of(frame, bins=10)
    texts = frame["wait"].map(str).tolist()
    raw = RawTable({"wait": Cells.from_texts([*texts[:-2], "many", "3"])})
    encoded = encoder.encode(raw)
    assert encoded.unreadable[:, 0].tolist() == [False] * 58 + [True] * 2
    assert (encoded.states[:58] == encoder.encode(from_frame(frame)).states[:58]).all()
    # Another unit, and whole numbers, which are no durations.
    finer = pd.DataFrame({"wait": spans + pd.Timedelta(minutes=1)})
    assert not encoder.encode(from_frame(finer)).problems
    assert len(encoder.encode(from_frame(pd.DataFrame({"wait": range(3)}))).problems) == 3
    column = encoder.columns[0]
    written = column.texts(*column.decode(np.arange(column.num_states), np.random.default_rng(0)))
    assert all(parse_durations(written, "h")[1])


def test_durations_are_written_as_pandas_writes_them() -> None:
    values = np.random.default_rng(0).integers(-(2**62), 2**62, 300)
    values = np.concatenate([values, values // 10**9, values // 10**15, [0, -1, 1]])
    written = duration_texts(values, "ns")
    assert written == [str(pd.Timedelta(int(value), unit="ns")) for value in values]
    parsed, valid = parse_durations(written, "ns")
    assert valid.all()
    assert (parsed == values).all()
    texts = ["3 days", "12:30:00", "-03:00:00", "1 day 00:00:01.5", "", "days", "3 days 12", "99999999 days"]
    parsed, valid = parse_durations(texts, "ms")
    assert parsed[:4].tolist() == [259_200_000, 45_000_000, -10_800_000, 86_401_500]
    assert valid.tolist() == [True] * 4 + [False] * 4


def test_evenly_spread_durations_are_no_ids() -> None:
    frame = pd.DataFrame({"wait": pd.to_timedelta(range(200), unit="D"), "x": [1, 2] * 100})
    assert [column.encoder.type for column in encoder_of(frame).columns] == ["number", "number"]


def test_times_of_the_day_are_quantities() -> None:
    minutes = np.random.default_rng(0).integers(0, 1440, 3000)
    times = [datetime.time(int(m) // 60, int(m) % 60) for m in minutes]
    for dtype in (object, "time64[us][pyarrow]"):
        frame = pd.DataFrame({"at": pd.Series(times, dtype=dtype)})
        encoder = encoder_of(frame)
        assert encoder.columns[0].encoder.type == "date"
        made = decoded(encoder, frame)
        assert str(made["at"].dtype) == str(dtype if isinstance(dtype, str) else "object")
        assert {type(value) for value in made["at"]} == {datetime.time}
        after = np.array([value.hour * 60 + value.minute for value in made["at"]])
        assert np.abs(after - minutes).max() < 60
        # A file has them as texts.
        raw = RawTable({"at": Cells.from_texts([f"{value:%H:%M}" for value in times])})
        assert (encoder.encode(raw).states == encoder.encode(from_frame(frame)).states).all()
        texts = encoder.columns[0].texts(*encoder.columns[0].decode(np.array([0]), np.random.default_rng(0)))
        assert texts[0].count(":") == 2


@pytest.mark.parametrize(
    ("freq", "text"), [("M", "2024-03"), ("D", "2024-03-01"), ("Y-DEC", "2024"), ("Q-DEC", "2024Q1")]
)
def test_periods_are_dates_if_files_write_them_so(freq: str, text: str) -> None:
    months = pd.PeriodIndex(pd.date_range("2020-03-01", periods=60, freq="MS").to_period(freq))
    frame = pd.DataFrame({"when": months.append(months[:1]), "x": [*[1, 2] * 30, 1]})
    frame.loc[7, "when"] = pd.NaT
    encoder = encoder_of(frame, model_missing=True)
    assert encoder.columns[0].encoder.type == ("category" if freq == "Q-DEC" else "date")
    made = decoded(encoder, frame)
    assert made["when"].dtype == frame["when"].dtype
    assert (made["when"].isna() == frame["when"].isna()).all()
    raw = RawTable(
        {"when": Cells.from_texts([str(value) for value in frame["when"]]), "x": Cells.from_texts(["1"] * 61)}
    )
    assert str(pd.Period("2024-03", freq="M").asfreq(freq, "start")) in (text, "2024-03-01")
    assert (encoder.encode(raw).states[:, 0] == encoder.encode(from_frame(frame)).states[:, 0]).all()


def test_moments_with_zones_among_objects_are_dates() -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=2))
    first = datetime.datetime(2024, 1, 1, 12, tzinfo=berlin)
    moments = [first + datetime.timedelta(hours=i % 30) for i in range(60)]
    moments[::2] = [moment.astimezone(datetime.UTC) for moment in moments[::2]]
    frame = pd.DataFrame({"at": pd.Series(moments, dtype=object), "x": [1, 2] * 30})
    encoder = encoder_of(frame, bins=1000)
    assert encoder.columns[0].encoder.type == "date"
    assert decoded(encoder, frame)["at"].tolist() == moments
    stamps = pd.Series([pd.Timestamp("2024-01-01") + pd.Timedelta(days=i % 9) for i in range(60)], dtype=object)
    assert encoder_of(pd.DataFrame({"at": stamps})).columns[0].encoder.type == "date"


def test_objects_without_repetition_are_no_categories() -> None:
    frame = pd.DataFrame(
        {
            "uuid": [uuid.UUID(int=i * 7919 << 64) for i in range(60)],
            "long": pd.Series([2**80 + i * i for i in range(60)], dtype=object),
            "point": [complex(i, 1) for i in range(60)],
            "unsigned": pd.Series([2**63 + i % 3 for i in range(60)], dtype=object),
            "x": [1, 2] * 30,
        }
    )
    types = {column.name: column.encoder.type for column in encoder_of(frame).columns}
    assert types == {"uuid": "id", "long": "id", "point": "id", "unsigned": "number", "x": "number"}
    mixed = pd.DataFrame({"a": pd.Series([i if i % 2 else str(i) for i in range(60)], dtype=object), "x": [1, 2] * 30})
    assert encoder_of(mixed).columns[0].encoder.type == "text"
    made = decoded(encoder_of(frame), frame)
    assert made["unsigned"].tolist() == frame["unsigned"].tolist()


def test_more_types_of_pyarrow_come_back() -> None:
    import pyarrow as pa

    first = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    types = {
        "text": (["x", None, "y"], pa.string()),
        "large text": (["x", None, "y"], pa.large_string()),
        "bytes": ([b"x", None, b"\xff"], pa.binary()),
        "moment": ([first, None, first + datetime.timedelta(days=1)], pa.timestamp("us", "Europe/Berlin")),
        "time": ([datetime.time(7), None, datetime.time(8)], pa.time64("us")),
        "wait": ([datetime.timedelta(hours=1), None, datetime.timedelta(hours=2)], pa.duration("us")),
        "count": ([1, None, 2], pa.int8()),
        "size": ([1.5, None, 2.5], pa.float32()),
        "sold": ([True, None, False], pa.bool_()),
        "price": ([decimal.Decimal("1.10"), None, decimal.Decimal("2.25")], pa.decimal128(5, 2)),
    }
    frame = pd.DataFrame(
        {name: pd.Series(values * 10, dtype=pd.ArrowDtype(dtype)) for name, (values, dtype) in types.items()}
    )
    pd.testing.assert_frame_equal(decoded(encoder_of(frame, model_missing=True), frame), frame)


@pytest.mark.parametrize(
    "labels",
    [
        [("a", "b"), ("a", 1)],
        [7, "a"],
        [2.5, None],
        [True, "1"],
        [1, 2],
        ["a", "b"],
        [np.int64(3), ("x", np.int64(4))],
    ],
)
def test_labels_of_columns_come_back(labels: list[object]) -> None:
    frame = pd.DataFrame({0: [1, 2] * 20, 1: [1, 2, 3, 4] * 10})
    frame.columns = pd.Index(labels) if len({type(label) for label in labels}) == 1 else pd.Index(labels, dtype=object)
    made = decoded(encoder_of(frame), frame)
    assert made.columns.equals(frame.columns)
    assert made.columns.nlevels == frame.columns.nlevels


def test_labels_that_are_not_those_of_their_names_are_refused() -> None:
    config = encoder_of(pd.DataFrame({("a", "b"): [1, 2] * 20})).config()
    config["columns"][0]["frame_type"]["label"] = ["a", "c"]
    with pytest.raises(ValueError, match="must be the text of its label in a frame"):
        TableEncoder.from_config(config)
    config["columns"][0]["frame_type"]["label"] = [["a"], "b"]
    with pytest.raises(ValueError, match="label of a frame type must be true, false or a list"):
        TableEncoder.from_config(config)


def test_durations_times_and_moments_with_zones_are_conditions() -> None:
    moments = pd.Series(pd.date_range("2024-01-01", periods=60, freq="D", tz="Europe/Berlin"))
    frame = pd.DataFrame(
        {
            "wait": pd.to_timedelta(np.arange(60) % 7, unit="h"),
            "at": pd.Series([datetime.time(i % 9) for i in range(60)], dtype=object),
            "x": [1, 2] * 30,
        }
    )
    encoder = encoder_of(frame)
    given = {"wait": datetime.timedelta(hours=3), "at": (datetime.time(4), datetime.time(5))}
    states = encoder.encode(from_frame(frame)).states
    made = to_frame(encoder.conditioned(given).decode(states[(frame["wait"] == pd.Timedelta(hours=3)).to_numpy()]))
    assert set(made["wait"]) == {pd.Timedelta(hours=3)}
    with pytest.raises(ValueError, match="given 'wait': '3' is not a number"):
        encoder.conditioned({"wait": 3})
    # A file has the clock of its own zone.
    texts = moments.dt.strftime("%Y-%m-%dT%H:%M:%S+01:00").tolist()
    file = TableEncoder.fit(
        RawTable({"at": Cells.from_texts(texts), "x": Cells.from_texts(["1", "2"] * 30)}), bins=1000
    )
    for value in (moments[3], moments[3].tz_convert("UTC"), "2024-01-04T00:00:00+01:00"):
        fixed = file.conditioned({"at": value}).decode(np.zeros((2, 2), dtype=int))
        assert fixed.columns[0].texts(fixed.values[0], fixed.missing[0]) == ["2024-01-04T00:00:00+01:00"] * 2


def test_states_are_labelled_as_users_write_their_values() -> None:
    ends = np.array(["2024-01-01", "2024-01-02T00:00:00.000000001"], dtype="datetime64[ns]")
    stamps = pd.Series(np.tile(ends, 30))
    frame = pd.DataFrame(
        {
            "wait": pd.to_timedelta(np.arange(60) % 2, unit="h"),
            "at": pd.Series([datetime.time(i % 2) for i in range(60)], dtype=object),
            "stamp": stamps,
        }
    )
    wait, at, stamp = (state_labels(column) for column in encoder_of(frame).columns)
    assert wait == ["0 days 00:00:00", "0 days 01:00:00"]
    assert at == ["00:00:00", "01:00:00"]
    assert [type(label) for label in stamp] == [np.datetime64] * 2
    assert stamp == list(ends)


def test_times_of_a_file_are_times_of_a_frame() -> None:
    texts = [f"{i % 24:02d}:{i % 24 * 2:02d}" for i in range(120)]
    raw = RawTable({"at": Cells.from_texts(texts), "x": Cells.from_texts(["1", "2"] * 60)})
    encoder = TableEncoder.fit(raw)
    made = to_frame(encoder.decode(encoder.encode(raw).states, np.random.default_rng(0)))
    assert made["at"].tolist() == [datetime.time.fromisoformat(text) for text in texts]
    assert (encoder.encode(from_frame(made)).states == encoder.encode(raw).states).all()


@pytest.mark.parametrize("model_missing", [False, True])
def test_dates_and_times_among_objects_keep_their_type_as_categories_and_constants(model_missing: bool) -> None:
    first = datetime.datetime(2024, 1, 1, 7, tzinfo=datetime.UTC)
    days = [None if i % 5 == 4 and model_missing else first + datetime.timedelta(days=i % 3) for i in range(60)]
    kinds = {
        "date": lambda moment: moment.date(),
        "time": lambda moment: moment.time().replace(hour=moment.day),
        "datetime": lambda moment: moment.replace(tzinfo=None),
        "utc": lambda moment: moment,
    }
    frame = pd.DataFrame(
        {
            name: pd.Series([None if day is None else make(day) for day in days], dtype=object)
            for name, make in kinds.items()
        }
    ).assign(x=[1, 2] * 30)
    encoder = encoder_of(frame, types=dict.fromkeys(kinds, "category"), model_missing=model_missing)
    pd.testing.assert_frame_equal(decoded(encoder, frame), frame)
    constant = frame.assign(**{name: frame[name].where(frame[name].isna(), frame[name][0]) for name in kinds})
    encoder = encoder_of(constant, model_missing=model_missing)
    pd.testing.assert_frame_equal(decoded(encoder, constant), constant)
