"""Small models of tables with all types of columns, for the fuzzers."""

from __future__ import annotations

import datetime
import decimal

import pandas
import pyarrow
import torch

from tauleap import denoise, network, noise
from tauleap.data.memory import Kind
from tauleap.data.table.columns import Cells, RawTable, TableEncoder, from_frame
from tauleap.data.table.format import TableFormat
from tauleap.model import Model

_ROWS = 40
_TEXTS = {
    "size": ["1.5", "2.5", "?"],
    "price": ["$1,234.50", "($5.00)", "$7.00"],
    "power": ["1.0E+05", "2.0E+06"],
    "hash": [str(2**60 + 1), str(2**60 + 7), "3"],
    "town": ["Ulm", "Bonn", "Rome", "Oslo", "Bern"],
    "day": ["2024-01-01", "2024-02-01", ""],
    "moment": ["2024-01-01T10:00:00+02:00", "2024-02-01T11:00:00+02:00"],
    "born": ["5-Mar-61", "6-Jun-79"],
    "sold": ["yes", "no", "no"],
    "unit": ["kg"],
}


def table_models() -> dict[str, Model]:
    """Return a model of a text file and one of a frame, both without training."""
    cells = {name: Cells.from_texts([texts[i % len(texts)] for i in range(_ROWS)]) for name, texts in _TEXTS.items()}
    cells["no"] = Cells.from_texts([str(i) for i in range(_ROWS)])
    cells["note"] = Cells.from_texts([f"{i} a few words about this row {i}" for i in range(_ROWS)])
    file = TableEncoder.fit(RawTable(cells), model_missing=True, keep_rare=True, max_categories=4)
    return {
        "mixed": _model(TableFormat(file)),
        "frame": _model(TableFormat(TableEncoder.fit(from_frame(_frame())), ".parquet")),
    }


def _frame() -> pandas.DataFrame:
    half = _ROWS // 2
    days = pandas.to_datetime(["2024-01-01", "2024-01-05"] * half)
    return pandas.DataFrame(
        {
            "count": pandas.array([1, None, 3, 7] * (half // 2), dtype="Int64"),
            "size": pandas.Series([0.25 * i * i for i in range(_ROWS)], dtype="float32"),
            "level": pandas.Categorical(["low", "high"] * half, categories=["low", "high"], ordered=True),
            "range": pandas.cut(list(range(_ROWS)), 4),
            "month": pandas.PeriodIndex(["2024-01", "2024-02"] * half, freq="M"),
            "day": days,
            "moment": days.tz_localize("Europe/Berlin"),
            "wait": pandas.to_timedelta(["1D", "2h"] * half),
            "sold": pandas.array([True, None] * half, dtype="boolean"),
            "date": pandas.Series([datetime.date(2024, 1, 1 + i % 3) for i in range(_ROWS)], dtype=object),
            "price": pandas.Series([decimal.Decimal("1.10"), decimal.Decimal("2.25")] * half, dtype=object),
            "hour": pandas.Series([datetime.time(1), datetime.time(2)] * half, dtype=object),
            "hash": pandas.array([2**64 - 1, 5] * half, dtype="uint64"),
            7: [1, 2] * half,
            ("pair", 1): [1, 2] * half,
            "span": pandas.array(pandas.to_timedelta(["1D", "2h"] * half), dtype="duration[us][pyarrow]"),
            "word": pandas.array(["x", "y"] * half, dtype=pandas.ArrowDtype(pyarrow.string())),
            "instant": pandas.Series(
                [datetime.datetime(2024, 1, 1 + i % 3, tzinfo=datetime.UTC) for i in range(_ROWS)], dtype=object
            ),
            "no": range(_ROWS),
        }
    )


def _model(form: TableFormat) -> Model:
    sizes = torch.tensor(form.encoder.sizes)
    states = int(sizes.max()) + 1
    small = {"width": 8, "hidden": 8, "depth": 1, "time_size": 8, "time_hidden": 8, "time_width": 8}
    return Model(
        noise.Absorbing(states, noise.LogLinear(), sizes=sizes),
        denoise.NetworkDenoiser(network.ResidualMLP(states, form.shape, one_hot=True, **small)),
        shape=form.shape,
        form=form,
        kind=Kind("frame"),
    )
