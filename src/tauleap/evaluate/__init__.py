"""Samples -> numbers with standard errors, and pictures.

Pictures are in ``tauleap.evaluate.plots``, which is not imported here: it needs matplotlib.
"""

from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.exact import exact_law, exact_log_likelihood
from tauleap.evaluate.histogram import hellinger, hellinger_of_laws
from tauleap.evaluate.likelihood import bits_per_dim
from tauleap.evaluate.per_row import Completions, row_hellinger, row_outliers

__all__ = [
    "Completions",
    "Estimate",
    "bits_per_dim",
    "exact_law",
    "exact_log_likelihood",
    "hellinger",
    "hellinger_of_laws",
    "row_hellinger",
    "row_outliers",
]
