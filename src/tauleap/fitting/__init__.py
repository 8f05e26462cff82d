"""Fit a model in one call: split the rows, choose a model, train it and measure it."""

from tauleap.fitting.fit_data import MINUTES, fit, longer

__all__ = ["MINUTES", "fit", "longer"]
