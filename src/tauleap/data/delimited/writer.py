"""Write decoded tables as delimited text, in the format of the file they come from."""

from __future__ import annotations

import io

from tauleap.data.columns.table import DecodedTable


def write_delimited(table: DecodedTable, file: io.TextIOBase, *, header: bool | None = None) -> None:
    """Write a table in the delimiter and the formats of its dialect.

    Open the file with ``newline=""`` and the encoding ``table.dialect.encoding``.

    Args:
        table: Decoded values.
        file: Where to write.
        header: Whether to write the names of the columns. Default: as in the original file.

    >>> import io
    >>> from tauleap.data.columns import Cells, RawTable, TableEncoder
    >>> raw = RawTable({"a": Cells.from_texts(["1.50", "2.25"])})
    >>> encoder, file = TableEncoder.fit(raw), io.StringIO()
    >>> write_delimited(encoder.decode(encoder.encode(raw).states), file)
    >>> file.getvalue()
    'a\\n1.50\\n2.25\\n'
    """
    dialect = table.dialect
    special = frozenset({dialect.delimiter, '"', "\r", "\n"})
    columns = [
        [_quoted(text, special) for text in column.texts(values, missing)]
        for column, values, missing in zip(table.columns, table.values, table.missing, strict=True)
    ]
    if dialect.header if header is None else header:
        names = [_quoted(column.name, special) for column in table.columns]
        file.write(dialect.delimiter.join(names) + dialect.line_end)
    # An empty line of a table with one column would be skipped when it is read.
    alone = len(columns) == 1 or dialect.delimiter == " "
    for row in zip(*columns, strict=True):
        line = dialect.delimiter.join(row) if not alone else dialect.delimiter.join(cell or '""' for cell in row)
        file.write(line + dialect.line_end)


def _quoted(text: str, special: frozenset[str]) -> str:
    # By hand, because the csv module of some versions leaves a carriage return unquoted. Spaces at the ends would be
    # lost when the file is read.
    if special.isdisjoint(text) and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'
