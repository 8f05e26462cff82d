"""Rows of symbols of different lengths: molecules, proteins, names, lines of text, lists of tokens."""
