"""Configurations that anybody may have written: each is refused with one sentence."""

import copy
import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tauleap.data.table.columns import Cells, RawTable, TableEncoder, from_frame, to_frame

COLUMNS = {
    "n": ["1.5", "2.5", "?"] * 10,
    "c": ["x", "y", "z"] * 10,
    "d": ["2024-01-01", "2024-02-01", ""] * 10,
    "b": ["yes", "no", "no"] * 10,
    "k": ["1"] * 30,
    "i": [str(i) for i in range(30)],
    "t": [f"{i} a few words about this row {i}" for i in range(30)],
}
RAW = RawTable({name: Cells.from_texts(values) for name, values in COLUMNS.items()})
CONFIG = json.loads(json.dumps(TableEncoder.fit(RAW).config()))


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> Any:
    config = copy.deepcopy(CONFIG)
    if not path:
        return value
    node = config
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return config


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(places(CONFIG))), JSON)
def test_any_change_is_refused_or_harmless(path: tuple[Any, ...], value: Any) -> None:
    try:
        encoder = TableEncoder.from_config(changed(path, value))
    except ValueError:
        with pytest.raises(ValueError, match=r"\A[^\n]{10,1000}\Z"):
            TableEncoder.from_config(changed(path, value))
        return
    states = np.stack([np.arange(3) % size for size in encoder.sizes], axis=1)
    decoded = encoder.decode(states, np.random.default_rng(0))
    for column, values, missing in zip(decoded.columns, decoded.values, decoded.missing, strict=True):
        column.texts(values, missing)


@pytest.mark.parametrize("path", [path for path in places(CONFIG) if path and isinstance(path[-1], str)])
def test_absent_fields_are_named(path: tuple[Any, ...]) -> None:
    config = copy.deepcopy(CONFIG)
    node = config
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    if path[-1] == "type" and path[-2] != "encoder":
        TableEncoder.from_config(config)  # the class of the object is known from its place
        return
    with pytest.raises(ValueError, match=path[-1]):
        TableEncoder.from_config(config)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("columns",), []),
        (("columns", 0, "encoder", "knots"), [[2.0], [1.0]]),
        (("columns", 0, "encoder", "knots"), [[1e999], [2.0]]),
        (("columns", 0, "encoder", "weights"), [[0], [0]]),
        (("columns", 0, "encoder", "weights"), [[1]]),
        (("columns", 0, "encoder", "decimals"), 10**9),
        (("columns", 0, "encoder", "type"), "pickle"),
        (("columns", 1, "encoder", "categories"), ["x", "x"]),
        (("columns", 1, "encoder", "categories"), []),
        (("columns", 1, "encoder", "other"), "x"),
        (("columns", 1, "encoder", "rare"), ["q"]),
        (("columns", 2, "encoder", "format"), "%Q"),
        (("columns", 2, "encoder", "unit"), "century"),
        (("columns", 2, "encoder", "numbers", "knots"), [[1e300]]),
        (("columns", 3, "encoder", "words"), ["yes"]),
        (("columns", 1, "name"), "n"),
        (("dialect", "encoding"), "rot13"),
        (("dialect", "delimiter"), ""),
    ],
)
def test_values_that_are_refused(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        TableEncoder.from_config(changed(path, value))


def test_types_of_frames_that_anybody_may_have_written() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b", "a"]), 7: [1, 2, 2]})
    config = TableEncoder.fit(from_frame(frame)).config()
    named = copy.deepcopy(config)
    named["columns"][1]["name"] = "seven"
    with pytest.raises(ValueError, match="the name 'seven' of a column must be a whole number"):
        TableEncoder.from_config(named)
    named["columns"][1]["name"] = "\ud800"
    with pytest.raises(ValueError, match=r"the name '\\ud800' of a column has half of a character"):
        TableEncoder.from_config(named)
    config["columns"][0]["frame_type"]["categories"] = ["a", 1, True, "\ud800", "a"]
    config["columns"][1]["frame_type"] |= {"name": "decimal128(99, 2)[pyarrow]"}
    encoder = TableEncoder.from_config(config)
    assert to_frame(encoder.decode(np.array([[0, 0], [1, 1]])))["c"].tolist() == ["a", "b"]


def test_dates_beyond_the_calendar_are_no_objects_of_python() -> None:
    frame = pd.DataFrame({"d": pd.Series([date(2024, 1, 1), date(2024, 1, 2)] * 2, dtype=object)})
    config = TableEncoder.fit(from_frame(frame)).config()
    config["columns"][0]["encoder"] |= {"unit": "Y"}
    encoder = TableEncoder.from_config(config)
    assert len(to_frame(encoder.decode(np.array([[0], [1]])))) == 2
