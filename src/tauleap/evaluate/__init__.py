"""Samples -> numbers with standard errors, and pictures.

Pictures are in ``tauleap.evaluate.plots``, which is not imported here: it needs matplotlib.
"""

from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.exact import exact_law, exact_log_likelihood
from tauleap.evaluate.fidelity import Fidelity, fid_and_is
from tauleap.evaluate.frechet import frechet_distance, frechet_of_gaussians, frechet_of_moments
from tauleap.evaluate.histogram import hellinger, hellinger_of_laws
from tauleap.evaluate.independent import Comparison, independent_bits_per_dim
from tauleap.evaluate.likelihood import bits_per_dim
from tauleap.evaluate.moments import Moments, grouped
from tauleap.evaluate.per_row import Completions, row_hellinger, row_outliers

__all__ = [
    "Comparison",
    "Completions",
    "Estimate",
    "Fidelity",
    "Moments",
    "bits_per_dim",
    "exact_law",
    "exact_log_likelihood",
    "fid_and_is",
    "frechet_distance",
    "frechet_of_gaussians",
    "frechet_of_moments",
    "grouped",
    "hellinger",
    "hellinger_of_laws",
    "independent_bits_per_dim",
    "row_hellinger",
    "row_outliers",
]
