"""The example table is what its script makes, and its law is the law of its rows."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import chi2

from tauleap.data import open_data
from tauleap.data.table.columns import BooleanEncoder
from tauleap.data.table.format import TableFormat

FOLDER = Path(__file__).parent.parent.parent / "examples" / "data"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_some", FOLDER / "make_some.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_script_writes_the_file(maker: ModuleType, tmp_path: Path) -> None:
    maker.main(tmp_path / "some.csv")
    assert (tmp_path / "some.csv").read_bytes() == (FOLDER / "some.csv").read_bytes()


def test_states_are_the_axes_of_the_distribution(maker: ModuleType) -> None:
    opened = open_data(FOLDER / "some.csv")
    assert isinstance(opened.form, TableFormat)
    encoders = {column.name: column.encoder for column in opened.form.encoder.columns}
    found = {
        name: list(encoder.words if isinstance(encoder, BooleanEncoder) else encoder.categories)  # pyright: ignore[reportAttributeAccessIssue]
        for name, encoder in encoders.items()
    }
    assert found == maker.COLUMNS
    rows, hidden = maker.orders(maker.ROWS), maker.empty((maker.ROWS, 5))
    assert opened.dataset.missing is not None
    assert np.array_equal(opened.dataset.missing.numpy(), hidden)
    assert np.array_equal(opened.dataset.x.numpy(), np.where(hidden, 0, rows))


def test_rows_follow_the_distribution(maker: ModuleType) -> None:
    """A chi-square test at level 0.001 over the cells where 5 rows and more are expected, the others in one."""
    law, rows = maker.law(), maker.orders(50_000, seed=5)
    counts = np.zeros(law.shape)
    np.add.at(counts, tuple(rows.T), 1)
    mean_counts = (50_000 * law).ravel()
    large = mean_counts >= 5
    seen = np.append(counts.ravel()[large], counts.ravel()[~large].sum())
    expected = np.append(mean_counts[large], mean_counts[~large].sum())
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.999, len(seen) - 1)


def test_columns_depend_on_each_other(maker: ModuleType) -> None:
    law = maker.law()

    def entropy(p: np.ndarray) -> float:
        return float(-(p[p > 0] * np.log2(p[p > 0])).sum())

    alone = sum(entropy(law.sum(tuple(a for a in range(5) if a != axis))) for axis in range(5))
    assert entropy(law) < 0.65 * alone
