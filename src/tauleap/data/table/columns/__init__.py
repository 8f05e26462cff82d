"""Columns of a table as states: types, encoders, and output in the types of the input.

A :class:`RawTable` comes from a file (:func:`tauleap.data.table.csv.read_delimited`) or a frame (:func:`from_frame`).
:meth:`TableEncoder.fit` detects the type of every column and fits its encoder; ``encode`` returns states, ``decode``
returns values, which :func:`to_frame` and :func:`tauleap.data.table.csv.write_delimited` return in the original types.
"""

from tauleap.data.table.columns.boolean import BooleanEncoder
from tauleap.data.table.columns.category import CategoryEncoder
from tauleap.data.table.columns.cells import Cells
from tauleap.data.table.columns.column import Column
from tauleap.data.table.columns.date import DateEncoder
from tauleap.data.table.columns.detect import TYPES, detect
from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.encoder import DecodedTable, EncodedTable, TableEncoder
from tauleap.data.table.columns.frame import from_frame, to_frame
from tauleap.data.table.columns.number import NumberEncoder
from tauleap.data.table.columns.raw import Problem, RawTable, TableError
from tauleap.data.table.columns.unmodelled import ConstantColumn, FreeTextColumn, IdentifierColumn

__all__ = [
    "TYPES",
    "BooleanEncoder",
    "CategoryEncoder",
    "Cells",
    "Column",
    "ConstantColumn",
    "DateEncoder",
    "DecodedTable",
    "Dialect",
    "EncodedTable",
    "FreeTextColumn",
    "IdentifierColumn",
    "NumberEncoder",
    "Problem",
    "RawTable",
    "TableEncoder",
    "TableError",
    "detect",
    "from_frame",
    "to_frame",
]
