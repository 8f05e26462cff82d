"""Defaults that Python and the command line share, without torch."""

SAMPLING_STEPS = 100
"""Steps of the reverse chain where none are given."""
