"""Write decoded tables as delimited text, in the format of the file they come from."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from tauleap.data.table.columns.cells import MISSING_MARKS
from tauleap.data.table.columns.dialect import Dialect
from tauleap.data.table.columns.encoder import DecodedTable
from tauleap.data.table.columns.number_text import is_number


def write_delimited(table: DecodedTable, file: io.TextIOBase, *, header: bool | None = None) -> None:
    """Write a table in the delimiter and the formats of its dialect.

    Open the file with ``newline=""`` and the encoding ``table.dialect.encoding``.

    Args:
        table: Decoded values.
        file: Where to write.
        header: Whether to write the names of the columns. Default: as in the original file.

    >>> import io
    >>> from tauleap.data.table.columns import Cells, RawTable, TableEncoder
    >>> raw = RawTable({"a": Cells.from_texts(["1.50", "2.25"])})
    >>> encoder, file = TableEncoder.fit(raw), io.StringIO()
    >>> write_delimited(encoder.decode(encoder.encode(raw).states), file)
    >>> file.getvalue()
    'a\\n1.50\\n2.25\\n'
    """
    columns = {
        column.name: column.texts(values, missing)
        for column, values, missing in zip(table.columns, table.values, table.missing, strict=True)
    }
    names = {column.name: column.header for column in table.columns if column.header is not None}
    write_texts(columns, table.dialect, file, header=header, names=names)


def write_texts(
    columns: Mapping[str, Sequence[str]],
    dialect: Dialect,
    file: io.TextIOBase,
    *,
    header: bool | None = None,
    names: Mapping[str, str] | None = None,
) -> None:
    """Write columns of texts as delimited text.

    Args:
        columns: The texts of each column by name, in order.
        dialect: The delimiter and the end of a line.
        file: Where to write, opened with ``newline=""``.
        header: Whether to write the names of the columns. Default: as the dialect says.
        names: Names in the file of columns that have another key in ``columns``. Default: none.

    >>> file = io.StringIO()
    >>> write_texts({"a": ["1", "x;y"]}, Dialect(";"), file)
    >>> file.getvalue()
    'a\\n1\\n"x;y"\\n'
    """
    special = frozenset({dialect.delimiter, dialect.quote, "\r", "\n", *("\\" * dialect.escape)})
    quoted = [[_quoted(text, special, dialect, dialect.quoted) for text in texts] for texts in columns.values()]
    if dialect.header if header is None else header:
        scope = "all" if dialect.quoted_names else "needed"
        written = [_quoted((names or {}).get(name, name), special, dialect, scope) for name in columns]
        quoted = [[name, *texts] for name, texts in zip(written, quoted, strict=True)]
    if dialect.announced:
        file.write(f"sep={dialect.delimiter}{dialect.line_end}")
    # An empty line of a table with one column would be skipped when it is read, as would a space at its beginning.
    needs_quotes = len(quoted) == 1 or dialect.delimiter == " "
    between = dialect.delimiter + " " * dialect.space
    for row in zip(*quoted, strict=True):
        line = between.join(row) if not needs_quotes else between.join(cell or dialect.in_quotes("") for cell in row)
        file.write(line + dialect.line_end)


def _quoted(text: str, special: frozenset[str], dialect: Dialect, scope: str) -> str:
    # By hand, because the csv module of some versions leaves a carriage return unquoted. Spaces at the ends would be
    # lost when the file is read.
    needed = not special.isdisjoint(text) or text != text.strip()
    if not needed and scope != "needed":
        needed = scope == "all" or not (text in MISSING_MARKS or is_number(text))
    return dialect.in_quotes(text) if needed else text
