"""Delimited text files: CSV, TSV and their relatives."""

from tauleap.data.table.csv.reader import option_problems, read_delimited
from tauleap.data.table.csv.writer import write_delimited, write_texts

__all__ = ["option_problems", "read_delimited", "write_delimited", "write_texts"]
