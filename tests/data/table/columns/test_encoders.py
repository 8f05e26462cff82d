"""Categories, dates, booleans, and columns that are not learned."""

import json
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tauleap.data.table.columns import BooleanEncoder, CategoryEncoder, ConstantColumn, DateEncoder, IdentifierColumn
from tauleap.data.table.columns.date_text import DateFormat, date_format

SCALARS = st.text(max_size=8) | st.integers(-(2**60), 2**60) | st.booleans() | st.floats(-1e9, 1e9)


@settings(max_examples=100, deadline=None)
@given(st.lists(SCALARS, min_size=1, max_size=40))
def test_categories_are_exact(values: list[object]) -> None:
    encoder = CategoryEncoder.fit(values)
    states, missing = encoder.encode(values)
    assert not missing.any()
    decoded = encoder.decode(states).tolist()
    assert [(type(a), a) for a in decoded] == [(type(b), b) for b in values]
    assert CategoryEncoder.from_config(json.loads(json.dumps(encoder.config()))) == encoder


def test_rare_categories_share_a_state_and_are_not_stored() -> None:
    names = [f"n{i}" for i in range(1500)] + ["common"] * 50
    encoder = CategoryEncoder.fit(names)
    assert encoder.num_states == 1000
    assert "n1499" not in json.dumps(encoder.config())
    states, _ = encoder.encode(["common", "n1499", "never seen"])
    assert encoder.decode(states).tolist() == ["common", "(other)", "(other)"]
    kept = CategoryEncoder.fit(names, keep_rare=True)
    drawn = kept.decode(np.full(50, 999), np.random.default_rng(0)).tolist()
    assert set(drawn) <= set(names)
    assert len(set(drawn)) > 30
    assert CategoryEncoder.fit(["(other)", *names], most=10).other == "(other 2)"


def test_spellings_of_other_sources() -> None:
    assert CategoryEncoder.fit(["1", "2"]).encode([1, 2.0, True, np.int64(2)])[0].tolist() == [0, 1, 0, 1]
    assert CategoryEncoder.fit(["1", "2"]).encode([True])[1].tolist() == [True]
    assert CategoryEncoder.fit([1, 2]).encode(["1", "2.5"])[1].tolist() == [False, True]


def test_booleans() -> None:
    encoder = BooleanEncoder(("No", "Yes"))
    states, missing = encoder.encode(["Yes", "no", True, 0, 1.0, "maybe", None, float("nan")])
    assert states.tolist() == [1, 0, 1, 0, 1, 0, 0, 0]
    assert missing.tolist() == [False] * 5 + [True] * 3
    assert BooleanEncoder.from_config(encoder.config()) == encoder


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.datetimes(min_value=datetime(1700, 1, 1)), min_size=1, max_size=40),
    st.sampled_from(["D", "h", "m", "s", "ms", "us"]),
)
def test_dates_keep_unit_and_bins(dates: list[datetime], unit: str) -> None:
    values = np.array(dates, dtype=f"datetime64[{unit}]").astype("datetime64[us]")
    encoder = DateEncoder.fit(values, bins=8)
    states, missing = encoder.encode(values)
    decoded = encoder.decode(states, np.random.default_rng(0))
    assert not missing.any()
    assert (encoder.encode(decoded)[0] == states).all()
    assert (decoded.astype(f"datetime64[{unit}]") == decoded).all()
    assert DateEncoder.from_config(json.loads(json.dumps(encoder.config()))) == encoder
    written = DateFormat(encoder.format).write(values)
    assert (DateFormat(encoder.format).parse(written)[0] == values).all()


@pytest.mark.parametrize(
    ("texts", "format_"),
    [
        (["01/2020", "12/1999"], "%m/%Y"),
        (["2020/01", "1999/12"], "%Y/%m"),
        (["2024-01-31", "1999-12-01"], "%Y-%m-%d"),
        (["2024-01-31 10:05:09", "1999-12-01 00:00:00"], "%Y-%m-%d %H:%M:%S"),
        (["2024-01-31T10:05:09.123", "1999-12-01T00:00:00.500"], "%Y-%m-%dT%H:%M:%S.%3f"),
        (["2024-01-31T10:05:09Z", "1999-12-01T00:00:00Z"], "%Y-%m-%dT%H:%M:%S%z"),
        (["31.01.2024", "01.12.1999"], "%d.%m.%Y"),
        (["1/31/2024", "12/1/1999"], "%-m/%-d/%Y"),
        (["31/01/2024", "01/12/1999"], "%d/%m/%Y"),
        (["31-Jan-24", "01-Dec-99"], "%d-%b-%y"),
        (["January 31, 2024", "December 1, 1999"], "%B %-d, %Y"),
        (["1/31/2024 9:05 PM", "12/1/1999 12:00 AM"], "%-m/%-d/%Y %-I:%M %p"),
        (["2024-01-31T10:05:09+02:00", "1999-12-01T00:00:00+02:00"], "%Y-%m-%dT%H:%M:%S%z"),
        (["2024-01-31 10:05 -0330", "1999-12-01 00:00 -0330"], "%Y-%m-%d %H:%M %z"),
        (["2024-01-31 10:05 UTC", "1999-12-01 00:00 UTC"], "%Y-%m-%d %H:%M %z"),
        (["31/Jan/2024:10:05:09 +0000", "01/Dec/1999:00:00:00 +0000"], "%d/%b/%Y:%H:%M:%S %z"),
        (["31 JAN 2024", "01 DEC 1999"], "%d %^b %Y"),
        (["31 january 2024", "1 december 1999"], "%-d %#B %Y"),
        (["Wed, 31 Jan 2024", "Wed, 01 Dec 1999"], "%a, %d %b %Y"),
        (["WED, 31 JAN 2024", "WED, 01 DEC 1999"], "%^a, %d %^b %Y"),
        (["31 Jan. 2024", "1 Dec. 1999"], "%-d %b. %Y"),
        (["31JAN2024", "01DEC1999"], "%d%^b%Y"),
        (["31JAN2024:10:05:09", "01DEC1999:00:00:00"], "%d%^b%Y:%H:%M:%S"),
        (["2024-Jan-31", "1999-Dec-01"], "%Y-%b-%d"),
        (["01/31/2024 09:05PM", "12/01/1999 12:00AM"], "%m/%d/%Y %I:%M%p"),
        (["1/31/2024 9:05 pm", "12/1/1999 12:00 am"], "%-m/%-d/%Y %-I:%M %#p"),
        (["20240131T100509", "19991201T000000"], "%Y%m%dT%H%M%S"),
        (["31.01.61", "01.12.79"], "%d.%m.%y"),
        (["10:05", "23:59"], "%H:%M"),
        (["2024-01", "1999-12"], "%Y-%m"),
    ],
)
def test_formats_of_dates(texts: list[str], format_: str) -> None:
    found = date_format(texts)
    assert found is not None
    assert found.text == format_
    parsed, valid = found.parse(texts)
    assert valid.all()
    assert found.write(parsed) == texts


@pytest.mark.parametrize(
    ("years", "first", "last"),
    [
        (range(60, 80), 1960, 1979),  # 1968 and 1969 are not a century apart
        ([*range(95, 100), *range(25)], 1995, 2024),
        (range(25), 2000, 2024),
        ([*range(20, 100), *range(11)], 1920, 2010),
        ([7], 2007, 2007),
        (range(100), 1950, 2049),
    ],
)
def test_two_digit_years_of_a_column_are_in_one_run(years: range, first: int, last: int) -> None:
    texts = [f"01.03.{year:02d}" for year in years]
    found = date_format(texts)
    assert found is not None
    dates = found.parse(texts)[0]
    read = dates.astype("datetime64[Y]").astype(int) + 1970
    assert (read.min(), read.max()) == (first, last)
    assert found.write(dates) == texts


def test_names_of_months_in_several_lengths() -> None:
    texts = ["1 March 2024", "2 Sept. 2024", "3 may 2024"]
    found = date_format(texts)
    assert found is not None
    assert found.parse(texts)[0].astype("datetime64[D]").astype(str).tolist() == [
        *("2024-03-01", "2024-09-02", "2024-05-03")
    ]


def test_dates_of_one_zone_keep_their_clock_and_other_zones_are_converted() -> None:
    texts = ["2024-01-31T00:00:00+05:30", "2024-02-29T00:00:00+05:30", "2024-03-31T00:00:00Z"]
    found = date_format(texts)
    assert found is not None
    dates = found.parse(texts)[0]
    assert found.write(dates) == [*texts[:2], "2024-03-31T05:30:00+05:30"]
    assert DateEncoder.fit(dates[:2], format=found).unit == "D"


def test_months_stay_whole() -> None:
    months = np.arange("2000-01", "2010-01", dtype="datetime64[M]").astype("datetime64[us]")
    encoder = DateEncoder.fit(months, bins=5)
    assert encoder.unit == "M"
    decoded = encoder.decode(encoder.encode(months)[0]).astype("datetime64[D]")
    assert (decoded == decoded.astype("datetime64[M]")).all()


def test_dates_that_are_none() -> None:
    assert date_format(["yes", "no"]) is None
    assert date_format(["31.02.2024", "30.02.2024"]) is None
    assert date_format(["01/02/2024"], day_first=True) == DateFormat("%d/%m/%Y")
    assert date_format(["group 12", "group 13"]) is None
    with pytest.raises(ValueError, match="%Q"):
        DateFormat("%Q")


def test_columns_that_are_not_learned() -> None:
    assert IdentifierColumn(0).decode(np.zeros(2), first=5).tolist() == [5, 6]
    constant = ConstantColumn.from_config(ConstantColumn(3).config())
    assert constant.decode(np.zeros(2)).tolist() == [3, 3]
