"""Delimited text files: CSV, TSV and their relatives."""

from tauleap.data.delimited.reader import option_problems, read_delimited
from tauleap.data.delimited.writer import write_delimited, write_texts

__all__ = ["option_problems", "read_delimited", "write_delimited", "write_texts"]
