"""Any array, list or frame: rows of states that are its own, or a ValueError or TypeError. Never another error."""

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tauleap as tl
from tauleap.data.memory import as_dataset, restore
from tauleap.data.table.format import TableFormat


def examples(number: int) -> settings:
    return settings(
        max_examples=number, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
KINDS = (
    hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.floating_dtypes()
    | hnp.complex_number_dtypes() | hnp.unicode_string_dtypes() | hnp.datetime64_dtypes() | st.just(np.dtype(object))
)  # fmt: skip
SMALL = st.integers(0, 300) | st.sampled_from([0.0, 1.0, 2.0, math.nan, 0.5, -1.0, math.inf])
CELLS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(width=16) | st.text(alphabet="ab0 é", max_size=2)


def arrays() -> st.SearchStrategy[np.ndarray]:
    whole = st.sampled_from([np.uint8, np.int64, np.float16, np.float64, np.int8]).flatmap(
        lambda kind: hnp.arrays(kind, SHAPES, elements=st.integers(0, 100).map(kind))
    )
    return whole | KINDS.flatmap(lambda kind: hnp.arrays(kind, SHAPES)) | hnp.arrays(np.float64, SHAPES, elements=SMALL)


def check_message(error: Exception) -> None:
    """Check that the error has a message."""
    assert str(error)


def check_rows(given: Any) -> None:
    try:
        rows, form, kind = as_dataset(given)
    except (ValueError, TypeError) as error:
        check_message(error)
        return
    assert (form is None) == (kind.name == "tensor")
    if form is not None:
        return
    values = np.asarray(given)
    assert tuple(rows.x.shape) == values.shape
    missing = np.zeros(values.shape, dtype=bool) if rows.missing is None else rows.missing.numpy()
    known = values[~missing].astype(np.float64)
    assert np.array_equal(rows.x.numpy()[~missing], known)
    assert all(value is None or value != value for value in values[missing].flat)
    assert rows.num_states > known.max(initial=0)


def test_any_array() -> None:
    @examples(1000)
    @given(arrays())
    def check(array: np.ndarray) -> None:
        check_rows(array)

    check()


def test_any_list() -> None:
    leaves = CELLS | st.binary(max_size=2) | st.complex_numbers() | st.just(object())
    values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner), max_leaves=12)
    rows = st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(SMALL | st.none(), min_size=n, max_size=n), max_size=5)
    )

    @examples(1000)
    @given(values | rows | st.lists(st.text(alphabet="ab", min_size=2, max_size=2), max_size=5) | st.sets(leaves))
    def check(value: Any) -> None:
        check_rows(value)

    check()


def test_any_frame() -> None:
    """Cells come back equal to what they were, in columns of the same names."""
    columns = st.integers(1, 3).flatmap(
        lambda n: st.integers(0, 5).flatmap(
            lambda rows: st.lists(st.lists(CELLS, min_size=rows, max_size=rows), min_size=n, max_size=n)
        )
    )

    @examples(500)
    @given(columns, st.lists(st.integers(0, 3) | st.sampled_from("abc"), min_size=3, max_size=3))
    def check(columns: list[list[Any]], names: list[Any]) -> None:
        frame = pandas.concat([pandas.Series(cells) for cells in columns], axis=1)
        frame.columns = names[: len(columns)]
        try:
            rows, form, kind = as_dataset(frame)
        except (ValueError, TypeError) as error:
            check_message(error)
            return
        assert isinstance(form, TableFormat)
        back = restore(rows.x, kind, form)
        assert list(back.columns) == list(frame.columns)
        known = rows.known().numpy()
        empty = frame.isna().to_numpy()
        nonempty = ~empty.all(1)  # rows without any value are left out
        for site, place in enumerate(form.encoder.sites):
            assert np.array_equal(~known[:, site], empty[nonempty, place])
            old_cells = frame.iloc[:, place][nonempty]
            for old, new, there in zip(old_cells, back.iloc[:, place], known[:, site], strict=True):
                assert not there or old == new or str(old) == str(new) or float(new) == float(old)

    check()


def test_any_array_is_fitted_or_raises() -> None:
    """A model whose samples have the rows' shape and states, or an error and no folder."""
    small = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)

    @examples(30)
    @given(hnp.arrays(np.float64, small, elements=st.sampled_from([0.0, 1.0, 2.0, math.nan])) | arrays())
    def check(array: np.ndarray) -> None:
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "run"
            try:
                model = tl.fit(array, steps=1, out=out, progress=False)
            except (ValueError, TypeError) as error:
                check_message(error)
                assert not out.exists()
                return
            made = tl.load(out).sample(2, steps=2, seed=0)
            assert made.shape == (2, *array.shape[1:])
            assert int(made.max()) < max(2, np.nanmax(array.astype(np.float64), initial=1) + 1)
            assert model.about["steps_trained"] == 1

    check()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("some.csv", TypeError, r"tauleap\.data\.open_data\('some.csv'\)"),
        (np.zeros((4, 0), dtype=int), ValueError, r"got shape \(4, 0\)"),
        (np.array([[0, 10**12]]), ValueError, r"1,000,000,000,001 states, more than 100,000.*numpy\.unique"),
        (np.array([[0, 2**63]], dtype=np.uint64), ValueError, "got 9223372036854775808"),
        (pandas.DataFrame([[0, 1]], columns=["a", "a"]), ValueError, "two columns of the frame are called 'a'"),
        (pandas.DataFrame([[0, 1]], columns=["1", 1]), ValueError, "two columns"),
        (pandas.DataFrame({"a": [[0], [1]]}), ValueError, "a: text, the cells have lists or other objects"),
    ],
)
def test_invalid_data_raises(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        as_dataset(given)


def test_values_that_are_equal_are_one_category() -> None:
    frame = pandas.DataFrame({"a": [0.0, -0.0, 0.5], "b": [True, 0, None]})
    rows, form, kind = as_dataset(frame)
    assert rows.x[:, 0].tolist() == [0, 0, 1]
    assert restore(rows.x, kind, form)["a"].tolist() == [0.0, 0.0, 0.5]
    assert torch.equal(rows.missing, torch.tensor([[False, False], [False, False], [False, True]]))  # pyright: ignore[reportArgumentType]
