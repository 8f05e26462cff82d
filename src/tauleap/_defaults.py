"""Defaults of both Python and the command line; torch is not imported."""

SAMPLING_STEPS = 100
"""Default number of sampling steps."""
