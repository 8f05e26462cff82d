"""Samples -> numbers with standard errors, and pictures."""
