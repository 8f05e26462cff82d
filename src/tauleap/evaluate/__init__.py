"""Samples -> numbers with standard errors, and pictures.

``tauleap.evaluate.plots`` and ``tauleap.evaluate.pushforward`` are imported when they are first used: pictures need
matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tauleap.evaluate.discretisation import discretisation_error
from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.exact import exact_law, exact_log_likelihood
from tauleap.evaluate.fidelity import Fidelity, fid_and_is
from tauleap.evaluate.frechet import frechet_distance, frechet_of_gaussians, frechet_of_moments
from tauleap.evaluate.histogram import hellinger, hellinger_of_laws
from tauleap.evaluate.independent import Comparison, independent_bits_per_dim
from tauleap.evaluate.likelihood import bits_per_dim
from tauleap.evaluate.moments import Moments, grouped
from tauleap.evaluate.order_likelihood import order_log_prob
from tauleap.evaluate.path_likelihood import path_log_prob
from tauleap.evaluate.per_row import Completions, row_hellinger, row_outliers
from tauleap.evaluate.tune import tune

if TYPE_CHECKING:
    from tauleap.evaluate import plots, pushforward

__all__ = [
    "Comparison",
    "Completions",
    "Estimate",
    "Fidelity",
    "Moments",
    "bits_per_dim",
    "discretisation_error",
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
    "order_log_prob",
    "path_log_prob",
    "plots",
    "pushforward",
    "row_hellinger",
    "row_outliers",
    "tune",
]

_MODULES = ("plots", "pushforward")


def __getattr__(name: str) -> object:
    """Return a module of this package that is imported only when it is used."""
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
