"""Functional dependencies are found where they are certain, and not where chance explains them."""

import math
import time
from itertools import permutations

import numpy as np
import pandas
import pytest

from tauleap.data.table.columns import TableEncoder, from_frame
from tauleap.data.table.columns.dependency import Dependency, _log_chance, describe_dependencies, find_dependencies


def _found(frame: pandas.DataFrame, **options: object) -> list[tuple[str, str]]:
    return [(each.determinant, each.dependent) for each in _dependencies(frame, **options)[0]]


def _dependencies(frame: pandas.DataFrame, **options):
    raw = from_frame(frame)
    encoder = TableEncoder.fit(raw, **options)
    encoded = encoder.encode(raw)
    columns = [encoder.columns[place] for place in encoder.sites]
    return find_dependencies(columns, encoded.states, encoded.missing), columns, encoded


def _places(rows: int = 2000) -> pandas.DataFrame:
    """A code that determines a city and a state, a state with several cities, and columns of their own."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 30, rows)
    city, state = code // 2, code // 10
    return pandas.DataFrame(
        {
            "code": code + 10_000,
            "city": np.array([f"c{i}" for i in range(15)])[city],
            "state": np.array(["x", "y", "z"])[state],
            "size": rng.normal(size=rows).round(3),
            "sold": rng.random(rows) < 0.3,
        }
    )


def test_what_follows_from_what() -> None:
    assert _found(_places()) == [("code", "city"), ("code", "state"), ("city", "state")]
    renamed = _places().assign(name=lambda frame: "n" + frame.city)
    found = _found(renamed)
    assert ("city", "name") in found
    assert ("name", "city") in found
    lines = describe_dependencies(_dependencies(renamed)[0])
    assert lines[0] == "city determines name, and name determines city"
    assert "code determines city, state, name" in lines


def test_one_contradiction_is_enough_and_missing_cells_are_none() -> None:
    frame = _places()
    frame.loc[1500, "state"] = "x" if frame.state[1500] != "x" else "y"
    assert _found(frame) == [("code", "city")]
    frame = _places()
    frame.loc[::7, "city"] = None
    frame.loc[1::7, "code"] = None
    assert _found(frame) == [("code", "city"), ("code", "state"), ("city", "state")]


def test_chance_is_no_dependency() -> None:
    """Columns with a value per row, rare values and few rows follow from each other by chance."""
    rng = np.random.default_rng(0)
    nearly_unique = pandas.DataFrame({"a": rng.permutation(300) // 2, "b": rng.integers(0, 2, 300).astype(str)})
    assert _found(nearly_unique, types={"a": "category", "b": "category"}) == []
    rare = pandas.DataFrame({"a": rng.integers(0, 5, 400), "b": ["x"] * 399 + ["y"]})
    rare.loc[399, "a"] = 7
    assert _found(rare, types={"a": "category"}) == []
    assert _found(_places(8)) == []
    # The same columns with more rows that agree are no chance.
    assert ("a", "b") in _found(pandas.concat([rare] * 8), types={"a": "category"})


def test_the_probability_of_chance_is_bounded() -> None:
    """Against all permutations of a column of eight rows."""
    for first, second in (
        ([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]),
        ([0, 0, 1, 1, 2, 2, 3, 4], [0, 0, 0, 0, 1, 1, 2, 2]),
        ([0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1]),
        ([0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 1, 1, 1, 1]),
    ):
        a, b = np.array(first), np.array(second)
        orders = set(permutations(second))
        follow = [all(len(set(np.array(order)[a == s].tolist())) == 1 for s in set(first)) for order in orders]
        exact = sum(follow) / len(orders)
        assert exact <= math.exp(_log_chance(a, b)) * (1 + 1e-9)
        assert math.exp(_log_chance(a, b)) < 20 * exact


def test_bins_and_rare_categories_are_no_values() -> None:
    frame = _places()
    frame["area"] = frame.code * 1.5  # 30 values, so each is a state
    assert ("code", "area") in _found(frame)
    assert not any("area" in pair for pair in _found(frame, bins=5))
    # With 10 states per category, rare cities share one, which the others do not decide.
    assert ("code", "city") in _found(frame, max_categories=10)


def test_violations_are_counted() -> None:
    frame = _places()
    found, columns, encoded = _dependencies(frame)
    assert not any(each.violations(columns, encoded.states, encoded.missing).any() for each in found)
    states, missing = encoded.states.copy(), encoded.missing.copy()
    wrong = np.arange(0, 100)
    states[wrong, 1] = (states[wrong, 1] + 1) % 15
    missing[wrong[:30], 0] = True
    counts = {each.dependent: each.violations(columns, states, missing) for each in found if each.determinant == "code"}
    assert counts["city"].sum() == 70
    assert not counts["state"].any()


def test_it_is_saved_as_json() -> None:
    each = Dependency("a", "b", (1, -1, 0))
    assert Dependency.from_config(each.config()) == each
    for change in ({"states": [1.5]}, {"states": [-2]}, {"states": [True]}, {"determinant": 3}, {"more": 1}):
        with pytest.raises(ValueError, match="a dependency"):
            Dependency.from_config(each.config() | change)


def test_a_thousand_columns_take_seconds() -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.integers(0, 3, (3000, 1000)), columns=[f"c{i}" for i in range(1000)])
    frame["c999"] = 2 - frame.c7
    raw = from_frame(frame)
    encoder = TableEncoder.fit(raw)
    encoded = encoder.encode(raw)
    began = time.process_time()
    found = find_dependencies(encoder.columns, encoded.states, encoded.missing)
    assert {(each.determinant, each.dependent) for each in found} == {("c7", "c999"), ("c999", "c7")}
    assert time.process_time() - began < 10
