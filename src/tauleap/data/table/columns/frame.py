"""Pandas frames as tables and back, with their names and types. Pandas is imported only to make a frame."""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from tauleap.data.table.columns.cells import Cells, objects
from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.durations import coarsest_unit, convert_unit
from tauleap.data.table.columns.encoder import DecodedTable
from tauleap.data.table.columns.fields import Scalar
from tauleap.data.table.columns.frame_types import FrameType, Label, column_name, frame_label
from tauleap.data.table.columns.frame_values import arrow_type, is_special, special_values
from tauleap.data.table.columns.number import NumberEncoder
from tauleap.data.table.columns.raw import RawTable

_PYTHON = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    bytes: "bytes",
    decimal.Decimal: "decimal",
    datetime.date: "date",
    datetime.datetime: "datetime",  # also pandas.Timestamp
    datetime.time: "time",
}


def from_frame(frame: Any, name: str = "the frame") -> RawTable:
    """Return the columns of a pandas frame.

    Args:
        frame: The frame; None, NaN, NaT and NA are missing.
        name: The frame in messages.

    Returns:
        The table, with the types of the columns.

    Raises:
        ValueError: Two columns have the same name.

    >>> import pandas
    >>> from_frame(pandas.DataFrame({"a": [1, 2]})).columns["a"].kind
    'number'
    """
    names = [column_name(label) for label in frame.columns]
    repeated = [text for text, count in Counter(names).items() if count > 1]
    if repeated:
        called = ", ".join(map(repr, repeated))
        raise ValueError(f"two columns of the frame are called {called}: write frame.columns = [...] with other names")
    columns: dict[str, Cells] = {}
    types: dict[str, FrameType] = {}
    for place, (text, label) in enumerate(zip(names, frame.columns, strict=True)):
        columns[text], types[text] = _cells(frame.iloc[:, place], frame_label(label))
    return RawTable(columns, name, frame_types=types, frame=frame)


def to_frame(table: DecodedTable, index: Any = None) -> Any:
    """Return a pandas frame with the names, order and types of the table.

    Args:
        table: Decoded values.
        index: The index of the rows. Default: 0, 1, 2, ...

    Returns:
        A ``pandas.DataFrame``. Tables from files have the types int64, float64, datetime64, bool and text, or those of
        pandas with missing values.
    """
    pandas = _pandas()
    labels = [
        column.name if column.frame_type is None else column.frame_type.label_of(column.name)
        for column in table.columns
    ]
    series = {
        place: _series(pandas, column, values, missing)
        for place, (column, values, missing) in enumerate(zip(table.columns, table.values, table.missing, strict=True))
    }
    frame = pandas.DataFrame(series)
    # Labels of several types would become those of one, such as None among texts.
    kinds = {type(label) for label in labels}
    frame.columns = pandas.Index(labels) if len(kinds) == 1 else pandas.Index(labels, dtype=object, tupleize_cols=False)
    if index is not None:
        frame.index = index
    return frame


def column_series(column: Column, values: np.ndarray, missing: np.ndarray) -> Any:
    """Return the values of one column as a pandas series of its type.

    Args:
        column: The column.
        values: Decoded values.
        missing: Whether each value is missing.
    """
    return _series(_pandas(), column, values, missing)


def _pandas() -> Any:
    try:
        import pandas  # pyright: ignore[reportMissingImports] (only where frames are used)
    except ModuleNotFoundError as error:
        raise ValueError("a frame needs pandas: write pip install 'tauleap[table]'") from error
    return pandas


def _cells(series: Any, label: Label) -> tuple[Cells, FrameType]:
    dtype, name = series.dtype, str(series.dtype)
    if name == "category":
        codes = np.asarray(series.cat.codes, dtype=np.int32)
        categories = [_scalar(value) for value in series.cat.categories.tolist()]
        used = np.unique(codes[codes >= 0])
        table = np.full(len(categories) + 1, -1, dtype=np.int32)
        table[used] = np.arange(len(used))
        kind = str(series.cat.categories.dtype)
        type_ = FrameType(name, "", tuple(categories), kind, bool(series.cat.ordered), label)
        return Cells("object", objects([categories[place] for place in used.tolist()]), table[codes]), type_
    kind = getattr(dtype, "kind", "O")
    if FrameType(name).period_format is not None:
        return _dates(series.dt.to_timestamp()), FrameType(name, label=label)
    if kind in "OUSTV" or name.startswith(("string", "str", "interval", "period")):
        return _object_cells(series, name, label)
    type_ = FrameType(name, label=label)
    if kind == "M":
        return _dates(series), type_
    codes, uniques = series.factorize()
    codes = np.asarray(codes, dtype=np.int32)
    if kind == "b":
        return Cells("boolean", np.asarray(uniques, dtype=bool), codes), type_
    if kind == "m":
        values = np.asarray(uniques).astype("timedelta64[ns]").astype(np.int64)
        unit = coarsest_unit(values)
        cells = Cells("number", convert_unit(values, "ns", unit), codes, unit=unit)
        return cells, replace(type_, objects=unit)
    if kind in "iu":
        return Cells("number", np.asarray(uniques, dtype=np.uint64 if kind == "u" else np.int64), codes), type_
    if kind == "f":
        width = getattr(dtype, "itemsize", 8)
        values = np.asarray(uniques, dtype=np.float64).astype({2: np.float16, 4: np.float32}.get(width, np.float64))
        cells = Cells("number", values, codes)
        return cells.drop(np.flatnonzero(np.isnan(values))), type_
    return _object_cells(series, name, label)


def _dates(series: Any) -> Cells:
    arrow = getattr(series.dtype, "pyarrow_dtype", None)
    if arrow is not None and getattr(arrow, "tz", None) is not None:
        series = series.astype(f"datetime64[{arrow.unit}, UTC]")
    codes, uniques = series.factorize()
    zone = getattr(uniques, "tz", None) or getattr(series.dtype, "tz", None)
    values = np.asarray(uniques.tz_convert("UTC").tz_localize(None) if zone is not None else uniques)
    # The dates of pyarrow, without a time, are objects.
    values = values.astype("datetime64[us]") if values.dtype.kind == "O" else values
    return Cells("date", values, np.asarray(codes, dtype=np.int32), is_utc=zone is not None)


def _object_cells(series: Any, name: str, label: Label) -> tuple[Cells, FrameType]:
    values, is_missing = series.tolist(), series.isna().to_numpy()
    places: dict[tuple[type, Any], int] = {}
    codes = np.full(len(values), -1, dtype=np.int32)
    try:
        for row, (value, missing) in enumerate(zip(values, is_missing.tolist(), strict=True)):
            if not missing:
                codes[row] = places.setdefault((type(value), value), len(places))
    except TypeError:
        # Lists and dictionaries cannot be compared quickly; such a column is excluded.
        places = {(str, str(row)): row for row in range(len(values))}
        codes = np.where(is_missing, -1, np.arange(len(values))).astype(np.int32)
        return Cells("text", objects([str(value) for value in values]), codes), FrameType(name, "mixed", label=label)
    found = {kind for kind, _ in places}
    distinct = [value for _, value in places]
    python = _python_type(next(iter(found))) if len(found) == 1 else "mixed"
    type_ = FrameType(name, python if name == "object" else "", label=label)
    zones = {getattr(value, "tzinfo", None) for value in distinct}
    if python in ("date", "datetime") and zones == {None}:
        return Cells("date", np.array(distinct, dtype="datetime64[us]"), codes), type_
    if python == "datetime" and None not in zones and name == "object":
        moments = [value.astimezone(datetime.UTC).replace(tzinfo=None) for value in distinct]
        return _joined(Cells("date", np.array(moments, dtype="datetime64[us]"), codes, is_utc=True)), replace(
            type_, objects="utc datetime"
        )
    if python == "time" and zones == {None}:
        first = datetime.date(1970, 1, 1)
        moments = [datetime.datetime.combine(first, value) for value in distinct]
        return Cells("date", np.array(moments, dtype="datetime64[us]"), codes), type_
    if python == "bool":
        return Cells("boolean", np.array(distinct, dtype=bool), codes), type_
    if python in ("int", "float", "decimal") and all(abs(value) < 2**63 for value in distinct):
        values_ = np.array(distinct, dtype=np.int64 if python == "int" else np.float64)
        return Cells("number", values_, codes), type_
    if python == "int" and all(0 <= value < 2**64 for value in distinct):
        return Cells("number", np.array(distinct, dtype=np.uint64), codes), type_
    if python in ("str", "bytes"):
        texts = [value if python == "str" else value.decode("utf-8", "surrogateescape") for value in distinct]
        return Cells("text", objects(texts), codes), type_
    return Cells("object", objects([_scalar(value) for value in distinct]), codes), type_


def _python_type(kind: type) -> str:
    return "datetime" if issubclass(kind, datetime.datetime) else _PYTHON.get(kind, "mixed")


def _joined(cells: Cells) -> Cells:
    """Return cells whose distinct values differ: moments of several time zones may be equal in one."""
    values, places = np.unique(cells.values, return_inverse=True)
    return replace(cells, values=values, codes=np.append(places, -1)[cells.codes].astype(np.int32))


def _scalar(value: object) -> Scalar:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool) else str(value)


def _series(pandas: Any, column: Column, values: np.ndarray, missing: np.ndarray) -> Any:
    type_ = column.frame_type
    if type_ is None:
        zone = column.encoder.date_format if isinstance(column.encoder, DateEncoder) else None
        if zone is not None and zone.is_time:
            return pandas.Series(_python("time", values, missing, column), dtype=object)
        series = _natural(pandas, values, missing)
        if zone is None or not zone.zone or values.dtype.kind != "M":
            return series
        return series.dt.tz_localize(datetime.timezone(zone.offset.astype("timedelta64[s]").item()))
    if type_.name == "category":
        return _categorical(pandas, type_, _with_none(values.tolist(), missing))
    try:
        return _typed(pandas, column, type_, values, missing)
    except (TypeError, ValueError, OverflowError, KeyError):
        # A type of another version of pandas, or a marker such as "(other)" in a column of numbers.
        return _natural(pandas, values, missing)


def _categorical(pandas: Any, type_: FrameType, items: np.ndarray) -> Any:
    extra = [value for value in dict.fromkeys(items) if value is not None and value not in type_.categories]
    names = list(dict.fromkeys([*type_.categories, *extra]))
    categories: Any = names
    if is_special(type_.category_type) and not extra:
        try:
            categories = pandas.Index(special_values(pandas, [str(name) for name in names], type_.category_type))
        except (TypeError, ValueError, OverflowError, KeyError):
            categories = names  # written by another version of pandas, or by hand
    places = {name: place for place, name in enumerate(names)}
    codes = [-1 if value is None else places[value] for value in items.tolist()]
    return pandas.Series(pandas.Categorical.from_codes(codes, categories, ordered=type_.ordered))


def _typed(pandas: Any, column: Column, type_: FrameType, values: np.ndarray, missing: np.ndarray) -> Any:
    name = type_.name
    if name == "object":
        return pandas.Series(_python(type_.objects, values, missing, column), dtype=object)
    if type_.period_format is not None and values.dtype.kind == "M":
        dates = pandas.Series(np.where(missing, np.datetime64("NaT"), _moments(values)))
        return dates.dt.to_period(name.removeprefix("period[").removesuffix("]"))
    if values.dtype.kind == "O" and name.startswith(("interval", "period")):
        texts = _with_none([str(value) for value in values.tolist()], missing).tolist()
        return pandas.Series(special_values(pandas, texts, name))
    if name.startswith(("time32", "time64")):
        return pandas.Series(_python("time", values, missing, column), dtype=name)
    if name.startswith(("binary", "large_binary")):
        return pandas.Series(_python("bytes", values, missing, column), dtype=arrow_type(pandas, name))
    if name.startswith(("string", "str", "large_string")):
        dtype = arrow_type(pandas, name) if name == "string[pyarrow]" else name
        return pandas.Series(_with_none(column.texts(values, missing), missing), dtype=dtype)
    if values.dtype.kind == "M" or name.startswith(("datetime64", "timestamp", "date32", "date64")):
        dates = pandas.Series(np.where(missing, np.datetime64("NaT"), _moments(values)))
        if ", " in name:
            zone = name.removesuffix("[pyarrow]").partition(", ")[2].rstrip("]").removeprefix("tz=")
            dates = dates.dt.tz_localize("UTC").dt.tz_convert(zone)
        return dates.astype(name)
    if name.startswith(("timedelta64", "duration")):
        nanoseconds = convert_unit(values, type_.unit or "ns", "ns")
        return pandas.Series(nanoseconds.astype("timedelta64[ns]")).mask(missing).astype(name)
    if name.startswith(("decimal", "dictionary")):
        items = _python("decimal" if name.startswith("decimal") else "str", values, missing, column)
        return pandas.Series(items, dtype=arrow_type(pandas, name))
    numpy_type = _numpy_type(name)
    if isinstance(column.encoder, NumberEncoder) and np.issubdtype(numpy_type, np.integer):
        values = _clipped(values, numpy_type)
    series = pandas.Series(values)
    if values.dtype.kind == "O":
        series = series.infer_objects()
    series = series.astype(name)
    # The integers and booleans of numpy have no missing values: pandas makes floats and objects of them.
    return series.mask(missing) if missing.any() else series


def _moments(values: np.ndarray) -> np.ndarray:
    """Return dates in a unit of pandas that holds them: nanoseconds end in 2262, microseconds after 200,000 years."""
    return values.astype("datetime64[ns]" if values.dtype == "M8[ns]" else "datetime64[us]")


def _numpy_type(name: str) -> Any:
    try:
        return np.dtype(name.partition("[")[0].lower())
    except TypeError:
        return np.dtype(object)


def _clipped(values: np.ndarray, numpy_type: Any) -> np.ndarray:
    """Return whole numbers inside the range of a type: floats near 2**64 may have been rounded beyond it."""
    low, high = int(np.iinfo(numpy_type).min), int(np.iinfo(numpy_type).max)
    if len(values) and low <= int(values.min()) and int(values.max()) <= high:
        return values
    return np.array([min(max(int(value), low), high) for value in values.tolist()], dtype=numpy_type)


_FROM_DATETIME = {
    "date": lambda moment: moment.date(),
    "datetime": lambda moment: moment,
    "utc datetime": lambda moment: moment.replace(tzinfo=datetime.UTC),
}


def _datetimes(values: np.ndarray, missing: np.ndarray) -> list[datetime.datetime]:
    """Return dates, or their texts if they are categories or a constant, as Python objects; 1970 where missing."""
    known = np.where(missing, np.datetime64(0, "us"), values.astype("datetime64[us]"))
    moments = known.astype(object).tolist()
    if not all(isinstance(moment, datetime.datetime) for moment in moments):
        raise ValueError(
            "Python's datetime can hold only the years 1 to 9999, got a date outside them: fit the model on a frame "
            "whose column has the pandas type datetime64[s]"
        )
    return moments


def _python(python: str, values: np.ndarray, missing: np.ndarray, column: Column) -> np.ndarray:
    if python in _FROM_DATETIME and values.dtype.kind in "MO":
        items = [_FROM_DATETIME[python](moment) for moment in _datetimes(values, missing)]
    elif python == "time" and values.dtype.kind == "M":
        items = [moment.time() for moment in _datetimes(values, missing)]
    elif python == "time":
        texts = ["00:00" if absent else str(value) for value, absent in zip(values.tolist(), missing, strict=True)]
        items = [datetime.time.fromisoformat(text.rpartition("T")[2]) for text in texts]
    elif python == "decimal":
        items = [decimal.Decimal(text) for text in column.texts(values, np.zeros_like(missing))]
    elif python == "bytes":
        items = [text.encode("utf-8", "surrogateescape") for text in column.texts(values, missing)]
    elif python == "str" and values.dtype.kind != "O":
        items = column.texts(values, missing)
    elif python == "float":
        items = values.astype(np.float64).tolist()
    else:
        items = values.tolist()
    return _with_none(items, missing)


def _with_none(values: list[Any], missing: np.ndarray) -> np.ndarray:
    return objects([None if absent else value for value, absent in zip(values, missing.tolist(), strict=True)])


def _natural(pandas: Any, values: np.ndarray, missing: np.ndarray) -> Any:
    if values.dtype.kind == "O":
        series = pandas.Series(_with_none(values.tolist(), missing), dtype=object)
        try:
            return series.infer_objects()
        except UnicodeEncodeError:  # half of a character, which the texts of pandas cannot hold
            return series
    if values.dtype.kind == "M":
        series = pandas.Series(_moments(values))
        return series.mask(missing) if missing.any() else series
    series = pandas.Series(values)
    if not missing.any():
        return series
    nullable = {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(values.dtype.kind)
    return series.astype(nullable).mask(missing) if nullable else series.mask(missing)
