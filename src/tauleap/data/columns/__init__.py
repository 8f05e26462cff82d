"""Columns of a table as states: types, encoders and output in the input's types."""
