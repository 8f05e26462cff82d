"""Frames survive the round trip: names, order, types, categories exactly and numbers within their bins."""

import datetime
import decimal
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tauleap.data.table.columns import TableEncoder, TableError, from_frame, to_frame

ROWS = st.integers(3, 40)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
DTYPES = [
    *("int64", "int8", "uint64", "float64", "float32", "bool", "object", "str"),
    *("Int64", "UInt8", "Float64", "boolean", "string", "category", "category of int", "ordered"),
    *("interval", "category of interval", "category of day", "period[M]", "time"),
    *("datetime64[ns]", "datetime64[s]", "datetime64[us, Europe/Berlin]", "timedelta64[ns]", "timedelta64[s]"),
    *("int32[pyarrow]", "double[pyarrow]", "bool[pyarrow]", "string[pyarrow]", "date32[day][pyarrow]"),
    *("timestamp[us][pyarrow]", "timestamp[us, tz=Asia/Tokyo][pyarrow]", "duration[us][pyarrow]"),
]
ARROW = {
    "int32[pyarrow]": (st.integers(-(2**31), 2**31 - 1), pa.int32()),
    "double[pyarrow]": (st.floats(allow_nan=False, allow_infinity=False), pa.float64()),
    "bool[pyarrow]": (st.booleans(), pa.bool_()),
    "string[pyarrow]": (WORDS, pa.string()),
    "date32[day][pyarrow]": (st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)), pa.date32()),
    "timestamp[us][pyarrow]": (MOMENTS, pa.timestamp("us")),
    "timestamp[us, tz=Asia/Tokyo][pyarrow]": (
        MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
        pa.timestamp("us", "Asia/Tokyo"),
    ),
    "duration[us][pyarrow]": (st.timedeltas(datetime.timedelta(-5000), datetime.timedelta(5000)), pa.duration("us")),
}
"""Cells and types of pyarrow by the names that pandas has for them."""


@st.composite
def series(draw: st.DrawFn, rows: int) -> pd.Series:
    dtype = draw(st.sampled_from(DTYPES))
    nullable = dtype not in ("int64", "int8", "uint64", "bool")

    def values(items: st.SearchStrategy) -> list:
        return draw(st.lists(st.none() | items if nullable else items, min_size=rows, max_size=rows))

    if dtype in ARROW:
        items, arrow = ARROW[dtype]
        return pd.Series(values(items), dtype=pd.ArrowDtype(arrow))
    if dtype in ("int64", "Int64"):
        return pd.Series(values(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5)), dtype=dtype)
    if dtype in ("int8", "UInt8"):
        return pd.Series(values(st.integers(0, 127)), dtype=dtype)
    if dtype == "uint64":
        return pd.Series(values(st.integers(0, 2**64 - 1)), dtype=dtype)
    if dtype == "float32":
        return pd.Series(values(st.floats(width=32)), dtype=dtype)
    if dtype in ("float64", "Float64"):
        return pd.Series(values(st.floats(allow_nan=False) | st.integers(0, 3).map(float)), dtype=dtype)
    if dtype in ("bool", "boolean"):
        return pd.Series(values(st.booleans()), dtype=dtype)
    if dtype == "object":
        return pd.Series(values(st.booleans() | st.integers(-3, 3) | WORDS | st.floats(-2, 2)), dtype=object)
    if dtype in ("str", "string"):
        return pd.Series(values(WORDS), dtype=dtype)
    if dtype in ("interval", "category of interval"):
        found = pd.arrays.IntervalArray.from_breaks([0.5 * place for place in range(6)], closed="left")
        picked = pd.Series(
            [None if place is None else found[place] for place in values(st.integers(0, 4))], dtype=found.dtype
        )
        return picked.astype("category") if dtype != "interval" else picked
    if dtype == "category of day":
        days = pd.date_range("2024-01-01", periods=3)
        return (
            pd.Series([None if place is None else days[place] for place in values(st.integers(0, 2))])
            .astype("datetime64[us]")
            .astype("category")
        )
    if dtype == "period[M]":
        months = pd.period_range("2024-01", periods=9, freq="M")
        return pd.Series([None if place is None else months[place] for place in values(st.integers(0, 8))], dtype=dtype)
    if dtype == "time":
        return pd.Series(
            [None if hour is None else datetime.time(hour) for hour in values(st.integers(0, 23))], dtype=object
        )
    if dtype.startswith("category"):
        return pd.Series(values(st.integers(0, 4) if "int" in dtype else WORDS)).astype(object).astype("category")
    if dtype == "ordered":
        kind = pd.CategoricalDtype(["low", "mid", "high", "never"], ordered=True)
        return pd.Series(values(st.sampled_from(["low", "mid", "high"])), dtype=kind)
    moments = MOMENTS
    if dtype == "datetime64[s]":
        moments = st.datetimes()  # nanoseconds are from 1677 to 2262 alone
    if dtype == "timedelta64[s]":
        return pd.Series(values(st.integers(-(10**9), 10**9).map(lambda s: datetime.timedelta(seconds=s))), dtype=dtype)
    if dtype == "timedelta64[ns]":
        spans = st.timedeltas(datetime.timedelta(-5000), datetime.timedelta(5000))
        return pd.Series(values(spans), dtype=dtype)
    found = pd.Series(pd.to_datetime(pd.Series(values(moments), dtype="datetime64[us]")))
    if "," in dtype:
        return found.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin").astype(dtype)
    return found.astype(dtype)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows, columns = draw(ROWS), draw(st.integers(1, 5))
    return pd.DataFrame({f"c{place}": draw(series(rows)) for place in range(columns)})


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frames(), st.booleans())
def test_any_frame_survives_the_round_trip(frame: pd.DataFrame, model_missing: bool) -> None:
    raw = from_frame(frame)
    try:
        encoder = TableEncoder.fit(raw, bins=6, model_missing=model_missing)
    except TableError:
        with pytest.raises(TableError, match="no column has anything to learn"):
            TableEncoder.fit(raw, bins=6, model_missing=model_missing)
        return
    assert TableEncoder.from_config(json.loads(json.dumps(encoder.config()))) == encoder
    encoded = encoder.encode(raw)
    assert not encoded.problems
    made = to_frame(encoder.decode(encoded.states, np.random.default_rng(0)), frame.index)
    assert list(made.columns) == list(frame.columns)
    again = encoder.encode(from_frame(made))
    known = ~encoded.missing
    assert (again.states[known] == encoded.states[known]).all()
    for column in encoder.columns:
        given_, found = frame[column.name], made[column.name]
        if column.encoder.type in ("id", "text") or given_.isna().all():
            continue
        assert str(found.dtype) == str(given_.dtype), column
        if column.encoder.type in ("category", "boolean"):
            rows = given_.notna().to_numpy()
            assert [(type(v), v) for v in found[rows]] == [(type(v), v) for v in given_[rows]]
        if column.missing_state:
            assert (found.isna() == given_.isna()).all()
        if column.encoder.type in ("number", "date") and raw.columns[column.name].kind in ("number", "date"):
            site = encoder.sites.index(encoder.columns.index(column)) if column.modelled else None
            states = np.zeros(len(frame), dtype=int) if site is None else encoded.states[:, site]
            before, after = raw.columns[column.name], from_frame(made).columns[column.name]
            for state in set(states[before.codes >= 0].tolist()):
                rows = (states == state) & (before.codes >= 0)
                values = set(before.values[before.codes[rows]].tolist())
                if len(values) == 1:  # a state of one value returns it, be it of 64 bits
                    assert set(after.values[after.codes[rows]].tolist()) == values
        if str(given_.dtype) == "category":
            assert found.cat.categories.equals(given_.cat.categories)
            assert found.cat.categories.dtype == given_.cat.categories.dtype
            assert found.cat.ordered == given_.cat.ordered


def test_objects_keep_their_python_types() -> None:
    frame = pd.DataFrame(
        {
            "day": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1), None],
            "price": [decimal.Decimal("1.50"), decimal.Decimal("2.25"), decimal.Decimal("1.50")],
            "list": [[1], [2], [3]],
            7: [1, 2, 1],
            "code": [b"\xff1", b"2", b"2"],
        }
    )
    frame["day"] = frame["day"].astype(object)
    encoder = TableEncoder.fit(from_frame(frame))
    made = to_frame(encoder.decode(encoder.encode(from_frame(frame)).states))
    assert list(made.columns) == ["day", "price", "list", 7, "code"]
    assert made["code"].tolist() == frame["code"].tolist()
    assert type(made["day"][0]) is datetime.date
    assert made["price"].tolist() == frame["price"].tolist()
    assert made["list"].isna().all()
    assert encoder.columns[2].reason == "the cells have lists or other objects"


def test_a_model_of_a_frame_reads_files_and_the_other_way_round() -> None:
    from tauleap.data.table.columns import Cells, RawTable

    frame = pd.DataFrame({"n": [1, 2, 2], "c": [1.5, 2.5, 1.5], "b": [True, False, True], "w": ["x", "y", "x"]})
    frame["d"] = pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-01"])
    texts = {
        "n": ["1", "2", "2"],
        "c": ["1.5", "2.5", "1.5"],
        "b": ["yes", "no", "yes"],
        "w": ["x", "y", "x"],
        "d": ["2024-01-01", "2024-01-03", "2024-01-01"],
    }
    file = RawTable({name: Cells.from_texts(values) for name, values in texts.items()})
    for source, other in ((from_frame(frame), file), (file, from_frame(frame))):
        encoder = TableEncoder.fit(source)
        assert (encoder.encode(source).states == encoder.encode(other).states).all()
        assert not encoder.encode(other).problems
    natural = to_frame(TableEncoder.fit(file).decode(TableEncoder.fit(file).encode(file).states))
    assert [dtype.kind for dtype in natural.dtypes] == ["i", "f", "b", "O", "M"]


def test_frames_with_equal_names_are_refused() -> None:
    with pytest.raises(ValueError, match="two columns of the frame are called 'a'"):
        from_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_dates_of_pyarrow() -> None:
    days = [datetime.date(2024, 1, 1 + i % 28) for i in range(60)]
    frame = pd.DataFrame({"d": pd.array(days, dtype=pd.ArrowDtype(pa.date32())), "k": ["x", "y"] * 30})
    encoder = TableEncoder.fit(from_frame(frame))
    assert encoder.columns[0].encoder.type == "date"
    made = to_frame(encoder.decode(encoder.encode(from_frame(frame)).states))
    assert made["d"].dtype == frame["d"].dtype
    assert made["d"].tolist() == days


@pytest.mark.parametrize("dtype", ["datetime64[s]", "datetime64[us]", "datetime64[us, UTC]"])
def test_dates_beyond_the_range_of_nanoseconds(dtype: str) -> None:
    days = np.array(["0001-01-01", "1500-02-03", "9999-12-31"] * 20, dtype="datetime64[s]")
    frame = pd.DataFrame({"d": pd.Series(days), "k": ["x", "y"] * 30})
    frame["d"] = frame["d"].dt.tz_localize("UTC").astype(dtype) if "UTC" in dtype else frame["d"].astype(dtype)
    encoder = TableEncoder.fit(from_frame(frame))
    made = to_frame(encoder.decode(encoder.encode(from_frame(frame)).states))
    assert made.equals(frame)


def test_a_value_of_another_type_is_shown_as_users_write_it() -> None:
    encoder = TableEncoder.fit(from_frame(pd.DataFrame({"k": ["x", "y"] * 30})))
    for values, shown in (([1, 2], "1 is not"), (pd.to_datetime(["2024-01-02", "2024-01-03"]), "2024-01-02")):
        found = encoder.encode(from_frame(pd.DataFrame({"k": values})))
        assert str(found.problems[0]).startswith(f"column 'k': row 0: {shown}")


def test_a_category_of_intervals_keeps_them() -> None:
    frame = pd.DataFrame({"a": pd.cut(np.linspace(0, 1, 50), 5), "k": ["x", "y"] * 25})
    encoder = TableEncoder.from_config(json.loads(json.dumps(TableEncoder.fit(from_frame(frame)).config())))
    made = to_frame(encoder.decode(encoder.encode(from_frame(frame)).states))
    assert made["a"].equals(frame["a"])
    assert made["a"].dtype == frame["a"].dtype


def test_absent_columns_are_all_named() -> None:
    encoder = TableEncoder.fit(from_frame(pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]})))
    with pytest.raises(TableError, match=r"(?s)column 'a'.*column 'c'"):
        encoder.encode(from_frame(pd.DataFrame({"b": [1]})))


def test_rare_categories_of_an_integer_column() -> None:
    frame = pd.DataFrame({"z": list(range(50)) * 2, "y": [0, 1] * 50})
    encoder = TableEncoder.fit(from_frame(frame), types={"z": "category"}, max_categories=10)
    made = to_frame(encoder.decode(encoder.encode(from_frame(frame)).states))
    assert set(made["z"]) == {*range(9), "(other)"}


def test_marks_of_missing_values_in_texts_of_a_frame_are_those_of_its_file() -> None:
    from tauleap.data.table.columns import Cells, RawTable

    texts = {"power": ["130", "?", "95"] * 20, "day": ["2024-01-01", "-", "2024-01-03"] * 20, "k": ["x", "?", "y"] * 20}
    file, frame = RawTable({name: Cells.from_texts(values) for name, values in texts.items()}), pd.DataFrame(texts)
    encoder = TableEncoder.fit(from_frame(frame))
    assert [column.encoder.type for column in encoder.columns] == ["number", "date", "category"]
    for other in (encoder, TableEncoder.fit(file)):
        encoded = other.encode(from_frame(frame))
        assert not encoded.problems
        assert encoded.missing.tolist() == other.encode(file).missing.tolist()
        assert encoded.missing[:3].tolist() == [[False] * 3, [True, True, False], [False] * 3]


def test_types_of_pyarrow_come_back() -> None:
    price, word = pd.ArrowDtype(pa.decimal128(5, 2)), pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
    frame = pd.DataFrame(
        {
            "price": pd.array([decimal.Decimal("1.10"), None, decimal.Decimal("2.25")] * 10, dtype=price),
            "one price": pd.array([decimal.Decimal("1.10"), None, decimal.Decimal("1.10")] * 10, dtype=price),
            "one day": pd.array([datetime.date(2024, 1, 1), None, None] * 10, dtype=pd.ArrowDtype(pa.date32())),
            "word": pd.Series(["x", None, "y"] * 10).astype(word),
        }
    )
    encoder = TableEncoder.fit(from_frame(frame), model_missing=True)
    encoder = TableEncoder.from_config(json.loads(json.dumps(encoder.config())))
    made = to_frame(encoder.decode(encoder.encode(from_frame(frame)).states))
    pd.testing.assert_frame_equal(made, frame)


def test_reasons_of_constants_have_plain_values() -> None:
    frame = pd.DataFrame({"n": [1, 1], "d": pd.to_datetime(["2024-01-01"] * 2), "x": [1, 2]})
    reasons = [column.reason for column in TableEncoder.fit(from_frame(frame)).columns]
    assert reasons[:2] == ["every value is 1", "every value is 2024-01-01T00:00:00.000000"]


def test_rare_categories_of_a_categorical_column_are_not_stored() -> None:
    names = [f"village {place}" for place in range(40) for _ in range(40 - place)]
    kind = pd.CategoricalDtype([*(f"village {place}" for place in reversed(range(40))), "nowhere"], ordered=True)
    frame = pd.DataFrame({"v": pd.Series(names, dtype=kind), "x": np.arange(len(names)) % 2})
    raw = from_frame(frame)
    encoder = TableEncoder.fit(raw, max_categories=10)
    later = np.array([place for place, name in enumerate(names) if int(name.split()[1]) >= 20])
    for fitted, frequent in ((encoder, range(9)), (encoder.refit(raw.select(later)), range(20, 29))):
        stored = json.dumps(fitted.config())
        assert [place for place in range(40) if f'"village {place}"' in stored] == list(frequent)
        categories = to_frame(fitted.decode(fitted.encode(raw).states))["v"].cat.categories
        assert list(categories) == [*(f"village {place}" for place in reversed(frequent)), "nowhere", "(other)"]
    kept = TableEncoder.fit(raw, max_categories=10, keep_rare=True)
    made = to_frame(kept.decode(kept.encode(raw).states))["v"]
    assert made.dtype == kind
