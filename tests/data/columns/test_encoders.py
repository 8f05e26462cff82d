"""Categories, dates, booleans, and columns that are not learned."""

import json
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tauleap.data.columns import BooleanEncoder, CategoryEncoder, ConstantColumn, DateEncoder, IdentifierColumn
from tauleap.data.columns.date_text import DateFormat, date_format

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
        (["10:05", "23:59"], "%H:%M"),
        (["2024-01", "1999-12"], "%Y-%m"),
    ],
)
def test_formats_of_dates(texts: list[str], format_: str) -> None:
    found = date_format(texts)
    assert found == DateFormat(format_)
    parsed, valid = found.parse(texts)
    assert valid.all()
    assert found.write(parsed) == [text.replace("Z", "+00:00") for text in texts]


def test_dates_that_are_none() -> None:
    assert date_format(["yes", "no"]) is None
    assert date_format(["31.02.2024", "30.02.2024"]) is None
    assert date_format(["01/02/2024"], day_first=True) == DateFormat("%d/%m/%Y")
    with pytest.raises(ValueError, match="%Q"):
        DateFormat("%Q")


def test_columns_that_are_not_learned() -> None:
    assert IdentifierColumn(0).decode(np.zeros(2), first=5).tolist() == [5, 6]
    constant = ConstantColumn.from_config(ConstantColumn(3).config())
    assert constant.decode(np.zeros(2)).tolist() == [3, 3]
