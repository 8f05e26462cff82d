"""From data to a model in one call: rows are split, a model is chosen, trained and measured."""

from tauleap.fitting.fit_data import MINUTES, fit, longer

__all__ = ["MINUTES", "fit", "longer"]
